"""Documents: one row for each tenant and content, with the original in the blob store."""

import threading
import time
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from string import hexdigits
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    and_,
    bindparam,
    case,
    delete,
    or_,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, aliased

from common.errors import Busy, DocumentNotFound, LecternError, OriginalMissing
from common.status import DocumentStatus, JobStatus
from storage.artifacts.store import Artifacts
from storage.blobs.base import Blobs
from storage.db.database import Database
from storage.db.ids import created_at_of, new_document_id
from storage.db.records import ArtifactRecord, DocumentRecord, record
from storage.db.tables import Answer, Artifact, Document, Job, Tenant
from storage.jobs import transitions
from storage.readable import ReadableDocuments

UNCLAIMED_S = 300.0
MAX_TRIES = 3
EXPIRED_AT_ONCE = 100
LEAST_OF_ID, ID_DIGITS = 4, 32
ASKABLE = (DocumentStatus.READY, DocumentStatus.READABLE)
# Columns, since objects for each row would take most of the time of looking a document up.
_ARTIFACT_FIELDS = tuple(one.key for one in Artifact.__mapper__.column_attrs)
FOUND = (
    select(
        *(one.columns[0].label(one.key) for one in Document.__mapper__.column_attrs),
        *(getattr(Artifact, name).label(f"artifact_{name}") for name in _ARTIFACT_FIELDS),
    )
    .outerjoin(
        Artifact,
        and_(
            Artifact.document_id == Document.id, Artifact.fingerprint == bindparam("fingerprint_")
        ),
    )
    .where(Document.id == bindparam("wanted"))
)
OWN_FOUND = FOUND.where(Document.tenant_id == bindparam("owner"))
_ArtifactRow = namedtuple("_ArtifactRow", _ARTIFACT_FIELDS)  # type: ignore[misc]


@dataclass(frozen=True)
class _NewFile:
    tenant_id: UUID
    sha256: str
    filename: str
    kind: str
    media_type: str
    num_bytes: int
    uploader: str
    user_metadata: Mapping[str, str] | None
    priority: int


@dataclass(frozen=True)
class _NewRow:
    file: _NewFile
    ttl_s: int | None
    admit: Callable[[Session], None]


class Documents:
    """The documents of all tenants.

    Another tenant's document is treated exactly as one that does not exist.

    Args:
        fingerprint: names a model and settings. Documents are shown as a process that has these
            sees them: an artifact of them makes a document ready, whatever else is done with it.
            Empty for the status of the last reading.
        readable: documents that this process can be asked about before they are stored.
    """

    def __init__(
        self,
        db: Database,
        blobs: Blobs,
        artifacts: Artifacts,
        fingerprint: str = "",
        readable: ReadableDocuments | None = None,
    ) -> None:
        self._db = db
        self._blobs = blobs
        self._artifacts = artifacts
        self._fingerprint = fingerprint
        self._readable = readable or ReadableDocuments()
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
        uploader: str = "",
        ttl_s: int | None = None,
        metadata: Mapping[str, str] | None = None,
        priority: int = 0,
        admit: Callable[[Session], None] = lambda _: None,
        admit_again: Callable[[Session], None] = lambda _: None,
    ) -> tuple[DocumentRecord, bool]:
        """Store a file and queue it to be read, unless the tenant has the same content already.

        The original is on the disk before its row exists; row and job are one transaction. If the
        original of the same content has been lost, this file takes its place.

        Args:
            path: the file, which is copied.
            sha256: hash of the file's bytes, in hexadecimal digits.
            filename: a label for people.
            kind: name of the extractor that reads the file.
            num_bytes: size of the file.
            uploader: public part of the API key; workers share a tenant's time between them.
            ttl_s: seconds after which the document is deleted; None for what its tenant says.
            metadata: what its owner notes on it.
            priority: of its reading among those of its tenant; 0 is usual.
            admit: called in the transaction that adds a row, to raise what forbids it.
            admit_again: the same for the transaction that queues a failed document again.
        Returns: the document, and whether this call queued it, because it is new or had failed.
        Raises: StorageFull, DatabaseUnavailable, Busy.
        """
        file = _NewFile(
            tenant_id,
            sha256,
            filename,
            kind,
            media_type,
            num_bytes,
            uploader,
            metadata,
            priority,
        )
        new = _NewRow(file, ttl_s, admit)
        for _ in range(MAX_TRIES):
            existing = self._find_same_content(file, path, admit_again)
            if existing is not None:
                return existing
            key = self._blobs.put(path)
            try:
                return self._insert(new, key), True
            except IntegrityError:  # the same file is being uploaded by another request
                self._blobs.delete(key)
            except LecternError:
                self._blobs.delete(key)
                raise
        raise Busy("The same file is being uploaded and deleted at once; try again in a moment.")

    def get(self, tenant_id: UUID, document_id: UUID) -> DocumentRecord:
        """Return a tenant's document. Raises: DocumentNotFound."""
        return self._find(self._db.rows(OWN_FOUND, owner=tenant_id, **self._wanted(document_id)))

    def find(self, document_id: UUID) -> DocumentRecord:
        """Return a document of any tenant, for workers. Raises: DocumentNotFound."""
        return self._find(self._db.rows(FOUND, **self._wanted(document_id)))

    def set_pinned(self, tenant_id: UUID, document_id: UUID, is_pinned: bool) -> DocumentRecord:
        """Note whether a document's cache is never to leave memory. Raises: DocumentNotFound."""
        with self._db.session() as session:
            own = and_(Document.id == document_id, Document.tenant_id == tenant_id)
            session.execute(update(Document).where(own).values(is_pinned=is_pinned))
        return self.get(tenant_id, document_id)

    def pinned(self) -> Sequence[DocumentRecord]:
        """Return the pinned documents of all tenants that are ready."""
        pinned = self._view().where(Document.is_pinned).order_by(Document.created_at, Document.id)
        with self._db.reading() as session:
            records = [self._record(row) for row in session.execute(pinned)]
        return [one for one in records if one.status is DocumentStatus.READY and not one.is_stale]

    def existing(self, document_ids: Iterable[UUID]) -> frozenset[UUID]:
        """Return those of these documents that there still are."""
        with self._db.reading() as session:
            found = select(Document.id).where(Document.id.in_(tuple(document_ids)))
            return frozenset(session.scalars(found))

    def is_deleted(self, document: DocumentRecord) -> bool:
        """Return whether a document has been deleted since its record was read.

        A deletion removes the row, then the original. SQL is asked only if the original is not
        there, so that this is cheap enough to be called every second.

        Raises: DatabaseUnavailable, Busy.
        """
        if self._has_original(document):
            return False
        try:
            self.find(document.id)
        except DocumentNotFound:
            return True
        return False

    def named(self, tenant_id: UUID, filename: str, limit: int) -> Sequence[DocumentRecord]:
        """Return at most `limit` documents of a tenant that a name stands for, newest first.

        A new version of a document counts when it is ready, and the old one until then.
        """
        if "\x00" in filename:  # which PostgreSQL takes in no text
            return ()
        newest_first = (
            self._view()
            .where(Document.tenant_id == tenant_id, Document.filename == filename)
            .order_by(Document.created_at.desc(), Document.id.desc())
            .limit(limit)
        )
        with self._db.reading() as session:
            return present_versions([self._record(row) for row in session.execute(newest_first)])

    def with_id_like(self, tenant_id: UUID, text: str, limit: int) -> Sequence[DocumentRecord]:
        """Return at most `limit` documents of a tenant whose id a text is, or begins, newest first.

        Args:
            text: at least `LEAST_OF_ID` characters of the id as it is written.
        """
        digits = text.lower().replace("-", "")
        if not LEAST_OF_ID <= len(digits) <= ID_DIGITS or not set(digits) <= set(hexdigits):
            return ()
        first = UUID(digits.ljust(ID_DIGITS, "0"))
        last = UUID(digits.ljust(ID_DIGITS, "f"))
        newest_first = (
            self._view()
            .where(Document.tenant_id == tenant_id, Document.id.between(first, last))
            .order_by(Document.created_at.desc(), Document.id.desc())
            .limit(limit)
        )
        with self._db.reading() as session:
            return tuple(self._record(row) for row in session.execute(newest_first))

    def list(
        self,
        tenant_id: UUID,
        limit: int,
        after: UUID | None = None,
        *,
        oldest_first: bool = False,
        name_part: str = "",
        statuses: Sequence[DocumentStatus] = (),
    ) -> Sequence[DocumentRecord]:
        """Return at most `limit` documents of a tenant, newest first unless asked otherwise.

        Args:
            name_part: a text that their names contain, in capitals or not.
            statuses: of which they have one; empty for any.
            after: the last document of the previous page, which may have been deleted since;
                None for the first page.
        Raises: DocumentNotFound if `after` is no document's id, or that of a deleted document that
            was made before ids told when.
        """
        own = self._view().where(Document.tenant_id == tenant_id).limit(limit)
        if oldest_first:
            page = own.order_by(Document.created_at, Document.id)
        else:
            page = own.order_by(Document.created_at.desc(), Document.id.desc())
        if name_part:
            page = page.where(Document.filename.icontains(name_part, autoescape=True))
        if statuses:
            is_ready = Artifact.id.is_not(None)
            shown = case((is_ready, DocumentStatus.READY), else_=Document.status)
            page = page.where(shown.in_(statuses))
        if after is not None:
            created_at = created_at_of(after) or self.get(tenant_id, after).created_at
            follows = _is_newer_than if oldest_first else _is_older_than
            page = page.where(follows(created_at, after))
        with self._db.reading() as session:
            return tuple(self._record(row) for row in session.execute(page))

    def rename(self, tenant_id: UUID, document_id: UUID, filename: str) -> None:
        """Give a document another name; several may have the same. Raises: DocumentNotFound."""
        with self._db.session() as session:
            _change(session, tenant_id, document_id, filename=filename)

    def set_metadata(
        self, tenant_id: UUID, document_id: UUID, metadata: Mapping[str, str] | None
    ) -> None:
        """Note something else on a document; None for nothing. Raises: DocumentNotFound."""
        with self._db.session() as session:
            _change(session, tenant_id, document_id, user_metadata=metadata)

    def set_priority(self, tenant_id: UUID, document_id: UUID, priority: int) -> None:
        """Change when a document is read among those of its tenant. Raises: DocumentNotFound."""
        with self._db.session() as session:
            _change(session, tenant_id, document_id, priority=priority)
            waiting = (Job.document_id == document_id, Job.status == JobStatus.QUEUED)
            session.execute(update(Job).where(*waiting).values(priority=priority))

    def replace(self, tenant_id: UUID, new_id: UUID, old_id: UUID) -> DocumentRecord:
        """Let a document take the place of another one when it is ready; that is deleted then.

        It has the other's name at once. A document that waits for taking another's place itself
        gives way: its reading is stopped and it is deleted.

        Returns: the new document.
        Raises: DocumentNotFound.
        """
        old = self.get(tenant_id, old_id)
        if old.id == new_id:
            return old
        is_waiting = old.replaces_id is not None and old.status is not DocumentStatus.READY
        with self._db.session() as session:
            _change(
                session,
                tenant_id,
                new_id,
                filename=old.filename,
                replaces_id=old.replaces_id if is_waiting else old.id,
            )
        if is_waiting:
            with suppress(DocumentNotFound):
                self.delete(tenant_id, old_id)
        return self.get(tenant_id, new_id)

    def delete_replaced(self, limit: int = EXPIRED_AT_ONCE) -> Sequence[UUID]:
        """Delete documents in whose place others are ready, at most so many; return their ids."""
        newer = aliased(Document)
        replaced = (
            select(Document.tenant_id, Document.id)
            .join(newer, and_(newer.replaces_id == Document.id,
                              newer.tenant_id == Document.tenant_id))
            .where(newer.status == DocumentStatus.READY)
            .limit(limit)
        )  # fmt: skip
        with self._db.reading() as session:
            found = session.execute(replaced).all()
        for tenant_id, document_id in found:
            with suppress(DocumentNotFound):  # somebody else deletes it, too
                self.delete(tenant_id, document_id)
        return tuple(document_id for _, document_id in found)

    def set_expiry(self, tenant_id: UUID, document_id: UUID, ttl_s: int | None) -> None:
        """Let a document be deleted so many seconds from now; None for never.

        Raises: DocumentNotFound.
        """
        with self._db.session() as session:
            later = None
            if ttl_s is not None:
                later = self._db.now(session) + timedelta(seconds=ttl_s)
            _change(session, tenant_id, document_id, expires_at=later)

    def delete_expired(self, limit: int = EXPIRED_AT_ONCE) -> Sequence[UUID]:
        """Delete documents whose time is over, at most so many; return their ids."""
        with self._db.reading() as session:
            now = self._db.now(session)
            over = select(Document.tenant_id, Document.id).where(Document.expires_at <= now)
            expired = session.execute(over.order_by(Document.expires_at).limit(limit)).all()
        for tenant_id, document_id in expired:
            with suppress(DocumentNotFound):  # somebody else deletes it, too
                self.delete(tenant_id, document_id)
        return tuple(document_id for _, document_id in expired)

    def delete(self, tenant_id: UUID, document_id: UUID) -> None:
        """Delete a document's row and all that hang on it, stop its job, then remove its files.

        What was deleted is overwritten in the database, now or by `Database.erase_deleted`. Files
        that cannot be removed now are removed by `collect_garbage` later.

        Raises: DocumentNotFound.
        """
        with self._db.session() as session:
            blob_key = session.scalar(
                select(Document.blob_key).where(
                    Document.id == document_id, Document.tenant_id == tenant_id
                )
            )
            if blob_key is None:
                raise DocumentNotFound
            # If an artifact of the document is being published, this waits until that is done.
            jobs = update(Job).where(Job.document_id == document_id)
            session.execute(jobs.values(status=JobStatus.CANCELLED))
            artifacts = select(Artifact.folder).where(Artifact.document_id == document_id)
            folders = list(session.scalars(artifacts))
            session.execute(delete(Answer).where(Answer.document_id == document_id))
            newer = update(Document).where(Document.replaces_id == document_id)
            session.execute(newer.values(replaces_id=None))
            session.execute(delete(Document).where(Document.id == document_id))
        self._remove_files(document_id, blob_key, folders)
        self._db.erase_deleted()

    def collect_garbage(self, unclaimed_s: float = UNCLAIMED_S) -> int:
        """Remove originals that no row has referred to for a while.

        The time is measured with this process's monotonic clock, so that a jump of the wall clock
        cannot make an upload that is in progress look old.

        Args:
            unclaimed_s: seconds that an original must have been without a row.
        Returns: how many originals were removed.
        """
        with self._collecting:
            keys = set(self._blobs.keys())
            with self._db.reading() as session:
                keys -= set(session.scalars(select(Document.blob_key)))
            now_s = time.monotonic()
            self._unclaimed_s = {key: self._unclaimed_s.get(key, now_s) for key in keys}
            old_keys = [key for key in keys if now_s - self._unclaimed_s[key] >= unclaimed_s]
            for key in old_keys:
                self._blobs.delete(key)
            return len(old_keys)

    def _view(self) -> Select[Document, Artifact]:
        """Select documents, each with its artifact of our fingerprint or None."""
        own = and_(Artifact.document_id == Document.id, Artifact.fingerprint == self._fingerprint)
        return select(Document, Artifact).outerjoin(Artifact, own)

    def _record(self, found: Row[Document, Artifact]) -> DocumentRecord:
        return self._record_of(*found)

    def _record_of(self, row: Any, artifact: Any) -> DocumentRecord:
        """Make a record of a document's row, and of its artifact's of our fingerprint or None."""
        if artifact is None:
            if (readable := self._readable.find(row.id)) is not None:
                return record(
                    DocumentRecord,
                    row,
                    status=DocumentStatus.READABLE,
                    num_tokens=readable.num_tokens,
                    num_pages=readable.num_pages,
                )
            is_stale = bool(self._fingerprint) and row.status is DocumentStatus.READY
            return record(DocumentRecord, row, is_stale=is_stale)
        return record(
            DocumentRecord,
            row,
            status=DocumentStatus.READY,
            error_code=None,
            error_message=None,
            num_tokens=artifact.num_tokens or row.num_tokens,
            num_pages=artifact.num_pages or row.num_pages,
            reading_ms=artifact.reading_ms or row.reading_ms,
            phases_ms=artifact.phases_ms,
            ready_at=artifact.created_at,
            artifact=record(ArtifactRecord, artifact, tenant_id=row.tenant_id),
        )

    def _wanted(self, document_id: UUID) -> dict[str, Any]:
        return {"wanted": document_id, "fingerprint_": self._fingerprint}

    def _find(self, rows: Sequence[Any]) -> DocumentRecord:
        """Return what was found. Raises: DocumentNotFound."""
        if not rows:
            raise DocumentNotFound
        (row,) = rows
        own = row[-len(_ARTIFACT_FIELDS) :]
        return self._record_of(row, None if row.artifact_id is None else _ArtifactRow(*own))

    def _find_same_content(
        self, file: _NewFile, path: Path, admit_again: Callable[[Session], None]
    ) -> tuple[DocumentRecord, bool] | None:
        """Return the tenant's document with this content, queued again if it had failed."""
        same_content = self._view().where(
            Document.tenant_id == file.tenant_id, Document.sha256 == file.sha256
        )
        with self._db.reading() as session:
            found = session.execute(same_content).one_or_none()
            if found is None:
                return None
            document = self._record(found)
        has_original = self._has_original(document)
        if has_original and document.status is not DocumentStatus.FAILED:
            return document, False
        new_key = None if has_original else self._blobs.put(path)
        try:
            return self._repair(document, new_key, admit_again)
        except LecternError:
            if new_key is not None:
                self._blobs.delete(new_key)
            raise

    def _repair(
        self, document: DocumentRecord, new_key: str | None, admit: Callable[[Session], None]
    ) -> tuple[DocumentRecord, bool] | None:
        """Give a document its original again, and queue it if it has failed.

        Args:
            new_key: key of the original that takes the place of one that was lost or cut short;
                None if it was not.
            admit: called first where a failed document is to be queued, to raise what forbids it.
        Returns: the document, and whether it was queued; None if it has been deleted.
        """
        with self._db.session() as session:
            if document.status is DocumentStatus.FAILED:
                admit(session)
            row = transitions.lock_document(session, document.id)
            if row is not None:
                row.blob_key = new_key or row.blob_key
                must_read = (
                    document.status is DocumentStatus.FAILED and row.status is DocumentStatus.FAILED
                )
                if must_read:
                    now = self._db.now(session)
                    transitions.enqueue(session, row, now, self._fingerprint)
        if new_key is not None:
            self._blobs.delete(new_key if row is None else document.blob_key)
        return None if row is None else (self.find(document.id), must_read)

    def _has_original(self, document: DocumentRecord) -> bool:
        try:
            return self._blobs.path(document.blob_key).stat().st_size == document.num_bytes
        except (OriginalMissing, FileNotFoundError):
            return False

    def _insert(self, new: _NewRow, blob_key: str) -> DocumentRecord:
        with self._db.session() as session:
            new.admit(session)
            now = self._db.now(session)
            row = Document(
                id=new_document_id(now),
                blob_key=blob_key,
                status=DocumentStatus.QUEUED,
                created_at=now,
                expires_at=self._expiry(session, new, now),
                **vars(new.file),
            )
            session.add(row)
            session.flush()
            transitions.enqueue(session, row, now, self._fingerprint)
            return record(DocumentRecord, row)

    def _expiry(self, session: Session, new: _NewRow, now: datetime) -> datetime | None:
        ttl_s = new.ttl_s
        if ttl_s is None:
            default = select(Tenant.document_ttl_s).where(Tenant.id == new.file.tenant_id)
            ttl_s = session.scalar(default)
        return None if ttl_s is None else now + timedelta(seconds=ttl_s)

    def _remove_files(self, document_id: UUID, blob_key: str, folders: Sequence[str]) -> None:
        try:
            self._blobs.delete(blob_key)
            for folder in folders:
                self._artifacts.remove(folder)
            self._artifacts.remove_unpublished(document_id)
        except OSError as error:
            log = structlog.get_logger("lectern.storage")
            log.warning("files left for garbage collection", reason=type(error).__name__)


def present_versions(documents: Sequence[DocumentRecord]) -> Sequence[DocumentRecord]:
    """Leave out what waits for taking another document's place, and what a newer one has taken."""
    ready = [one for one in documents if one.status in ASKABLE]
    replaced = {one.replaces_id for one in ready}
    return tuple(
        one
        for one in documents
        if one.id not in replaced and (one.replaces_id is None or one.status in ASKABLE)
    )


def _change(session: Session, tenant_id: UUID, document_id: UUID, **values: Any) -> None:
    """Write columns of a tenant's document. Raises: DocumentNotFound."""
    own = (Document.id == document_id, Document.tenant_id == tenant_id)
    changed = update(Document).where(*own).values(**values)
    if session.execute(changed.returning(Document.id)).first() is None:
        raise DocumentNotFound


def _is_newer_than(created_at: datetime, document_id: UUID) -> ColumnElement[bool]:
    return or_(
        Document.created_at > created_at,
        and_(Document.created_at == created_at, Document.id > document_id),
    )


def _is_older_than(created_at: datetime, document_id: UUID) -> ColumnElement[bool]:
    return or_(
        Document.created_at < created_at,
        and_(Document.created_at == created_at, Document.id < document_id),
    )
