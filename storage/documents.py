"""Documents: one row per tenant and content, its original beside it."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

import structlog
from sqlalchemy import ColumnElement, and_, delete, or_, select, update
from sqlalchemy.exc import IntegrityError

from common.errors import Busy, DocumentNotFound
from storage.artifacts.store import Artifacts
from storage.blobs.base import Blobs
from storage.db.database import Database
from storage.db.records import DocumentRecord, record
from storage.db.tables import Artifact, Document, Job
from storage.jobs import queueing
from storage.jobs.queueing import NOT_FOUND

UNCLAIMED_S = 300.0
TRIES = 3


@dataclass(frozen=True)
class _File:
    tenant_id: UUID
    sha256: str
    filename: str
    kind: str
    media_type: str
    num_bytes: int


class Documents:
    """The documents of all tenants; a foreign id is as unknown as one that never was."""

    def __init__(self, db: Database, blobs: Blobs, artifacts: Artifacts) -> None:
        self._db = db
        self._blobs = blobs
        self._artifacts = artifacts
        self._unclaimed_s: dict[str, float] = {}  # blob key: monotonic second it was first seen
        self._collecting = threading.Lock()

    def add(
        self,
        tenant_id: UUID,
        path: Path,
        *,
        sha256: str,
        filename: str,
        kind: str,
        media_type: str,
        num_bytes: int,
    ) -> tuple[DocumentRecord, bool]:
        """Store a file and queue it to be read, unless the tenant has the same content already.

        The original is durable before its row exists, and row and job are one transaction.

        Args:
            path: the file, copied; sha256: hex digest of its bytes.
        Returns: the document, and whether this call queued it: it is new, or had failed before.
        Raises: StorageFull, DatabaseUnavailable, Busy.
        """
        file = _File(tenant_id, sha256, filename, kind, media_type, num_bytes)
        for _ in range(TRIES):
            known = self._again(file)
            if known is not None:
                return known
            key = self._blobs.put(path)
            try:
                return self._insert(file, key), True
            except IntegrityError:  # somebody uploads the same file at the same time
                self._blobs.delete(key)
        raise Busy("The same file is being uploaded and deleted at once; try again in a moment.")

    def get(self, tenant_id: UUID, document_id: UUID) -> DocumentRecord:
        """Return a tenant's document. Raises: DocumentNotFound."""
        return self._one(Document.id == document_id, Document.tenant_id == tenant_id)

    def find(self, document_id: UUID) -> DocumentRecord:
        """Return a document whosever it is; for workers. Raises: DocumentNotFound."""
        return self._one(Document.id == document_id)

    def list(
        self, tenant_id: UUID, limit: int, after: UUID | None = None
    ) -> Sequence[DocumentRecord]:
        """Return a tenant's documents, newest first.

        Args:
            after: the last document of the page before.
        Raises: DocumentNotFound if that one is gone.
        """
        wanted = select(Document).where(Document.tenant_id == tenant_id)
        if after is not None:
            wanted = wanted.where(_older_than(self.get(tenant_id, after)))
        wanted = wanted.order_by(Document.created_at.desc(), Document.id.desc()).limit(limit)
        with self._db.reading() as session:
            return tuple(record(DocumentRecord, row) for row in session.scalars(wanted))

    def delete(self, tenant_id: UUID, document_id: UUID) -> None:
        """Make a document unknown at once, stop its job, then remove its bytes.

        Bytes that cannot be removed now are removed by `collect_garbage`.
        Raises: DocumentNotFound.
        """
        with self._db.session() as session:
            mine = select(Document.blob_key).where(
                Document.id == document_id, Document.tenant_id == tenant_id
            )
            blob_key = session.scalar(mine)
            if blob_key is None:
                raise DocumentNotFound(NOT_FOUND)
            jobs = update(Job).where(Job.document_id == document_id)
            session.execute(jobs.values(status="cancelled"))  # waits for a publish in progress
            held = select(Artifact.folder).where(Artifact.document_id == document_id)
            folders = list(session.scalars(held))
            session.execute(delete(Document).where(Document.id == document_id))
        self._remove(blob_key, folders)

    def collect_garbage(self, unclaimed_s: float = UNCLAIMED_S) -> int:
        """Remove originals that have had no row for `unclaimed_s`, and say how many.

        How long is counted by this object's own clock, so that a wall clock which jumps cannot
        make an upload in progress look old.
        """
        with self._collecting:
            keys = set(self._blobs.keys())
            with self._db.reading() as session:
                keys -= set(session.scalars(select(Document.blob_key)))
            now_s = time.monotonic()
            self._unclaimed_s = {key: self._unclaimed_s.get(key, now_s) for key in keys}
            old = [key for key in keys if now_s - self._unclaimed_s[key] >= unclaimed_s]
            for key in old:
                self._blobs.delete(key)
            return len(old)

    def _one(self, *conditions: ColumnElement[bool]) -> DocumentRecord:
        with self._db.reading() as session:
            row = session.scalar(select(Document).where(*conditions))
            if row is None:
                raise DocumentNotFound(NOT_FOUND)
            return record(DocumentRecord, row)

    def _again(self, file: _File) -> tuple[DocumentRecord, bool] | None:
        """The document if it is known, queued once more if it had failed."""
        same = select(Document).where(
            Document.tenant_id == file.tenant_id, Document.sha256 == file.sha256
        )
        with self._db.reading() as session:
            row = session.scalar(same)
            if row is None or row.status != "failed":
                return None if row is None else (record(DocumentRecord, row), False)
        with self._db.session() as session:
            row = session.scalar(same.with_for_update())
            if row is None:
                return None
            failed = row.status == "failed"
            if failed:
                queueing.enqueue(session, row, self._db.now(session))
            return record(DocumentRecord, row), failed

    def _insert(self, file: _File, blob_key: str) -> DocumentRecord:
        with self._db.session() as session:
            now = self._db.now(session)
            row = Document(
                id=uuid4(), blob_key=blob_key, status="queued", created_at=now, **vars(file)
            )
            session.add(row)
            session.flush()
            queueing.enqueue(session, row, now)
            return record(DocumentRecord, row)

    def _remove(self, blob_key: str, folders: Sequence[str]) -> None:
        try:
            self._blobs.delete(blob_key)
            for folder in folders:
                self._artifacts.remove(folder)
        except OSError as error:
            log = structlog.get_logger("lectern.storage")
            log.warning("bytes left for the collector", reason=type(error).__name__)


def _older_than(document: DocumentRecord) -> ColumnElement[bool]:
    return or_(
        Document.created_at < document.created_at,
        and_(Document.created_at == document.created_at, Document.id < document.id),
    )
