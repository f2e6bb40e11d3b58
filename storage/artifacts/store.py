"""Artifacts: folders that appear whole or not at all, and are believed only if their hashes fit."""

import errno
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog
from blake3 import blake3
from sqlalchemy import delete, select

from common.errors import CacheRebuilding, CorruptArtifact, DocumentDeleted, LecternError, Transient
from storage.artifacts.draft import FOLDER, MANIFEST, ArtifactDraft, no_failpoint
from storage.db.database import Database
from storage.db.records import ArtifactRecord, record
from storage.db.tables import Artifact, Document
from storage.files import own_folder
from storage.jobs import queueing

QUARANTINE = ".quarantine"
QUARANTINE_S = 24 * 3600.0
MAX_MANIFEST_BYTES = 64 * 1024 * 1024
DAMAGED = "The stored cache is damaged."
REPLACED = "The stored cache was replaced while it was being loaded; ask again."
AWAY = "The stored cache cannot be read at the moment."
NOT_WHAT_IT_WAS = frozenset(
    {errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.EIO, errno.ENXIO}
)


@dataclass(frozen=True)
class StoredArtifact:
    """A verified manifest, and its files, each read and verified when its turn comes."""

    manifest: dict[str, Any]
    files: Iterator[tuple[str, bytes]]


class Artifacts:
    """The artifacts below one folder.

    Args:
        failpoint: told the name of every publish step that is through; tests die there.
    """

    def __init__(
        self, db: Database, root: Path, failpoint: Callable[[str], None] = no_failpoint
    ) -> None:
        self._db = db
        self._root = root
        self._failpoint = failpoint
        root.mkdir(parents=True, exist_ok=True)

    def draft(self, document_id: UUID, fingerprint: str) -> ArtifactDraft:
        """Begin an artifact: a context manager that leaves nothing behind unless published.

        Raises: DocumentDeleted.
        """
        with self._db.reading() as session:
            tenant_id = session.scalar(
                select(Document.tenant_id).where(Document.id == document_id)
            )  # fmt: skip
        if tenant_id is None:
            raise DocumentDeleted("The document was deleted while it was being read.")
        binding = {
            "tenant_id": str(tenant_id),
            "document_id": str(document_id),
            "fingerprint": fingerprint,
        }
        return ArtifactDraft(self._db, self._root, binding, self._failpoint)

    def current(self, document_id: UUID) -> ArtifactRecord | None:
        """Return the published artifact of a document, whatever its fingerprint."""
        wanted = (
            select(Artifact, Document.tenant_id)
            .join(Document, Document.id == Artifact.document_id)
            .where(Artifact.document_id == document_id)
            .order_by(Artifact.created_at.desc())
            .limit(1)
        )
        with self._db.reading() as session:
            found = session.execute(wanted).first()
            if found is None:
                return None
            row, tenant_id = found
            return record(ArtifactRecord, row, tenant_id=tenant_id)

    def load(self, artifact: ArtifactRecord) -> StoredArtifact:
        """Read an artifact with bounded reads; nothing unverified leaves this function.

        Raises: CorruptArtifact if anything is not what was published, then and while iterating;
            CacheRebuilding if the artifact was replaced meanwhile.
        """
        folder = self._folder(artifact.folder)
        with self._judged(artifact):
            data = _read(folder / MANIFEST, MAX_MANIFEST_BYTES)
            if blake3(data).hexdigest() != artifact.manifest_hash:
                raise CorruptArtifact(DAMAGED)
            manifest = json.loads(data)
            _check_binding(manifest, artifact)
        return StoredArtifact(manifest, self._files(folder, manifest, artifact))

    def quarantine(self, artifact: ArtifactRecord) -> None:
        """Take a damaged artifact out of use and queue its document; bytes are kept for a day.

        Does nothing if the artifact was replaced or deleted meanwhile.
        """
        with self._db.session() as session:
            document = queueing.lock_document(session, artifact.document_id)
            mine = delete(Artifact).where(Artifact.id == artifact.id).returning(Artifact.id)
            if document is None or session.execute(mine).first() is None:
                return
            queueing.enqueue(session, document, self._db.now(session))
        path = self._folder(artifact.folder)
        try:
            os.utime(path)
            path.rename(path.with_name(path.name + QUARANTINE))
        except OSError as error:  # missing altogether, or left for the collector
            self._log().warning("not quarantined", reason=type(error).__name__)

    def remove(self, folder: str) -> None:
        """Remove the folder of an artifact that has no row any more."""
        shutil.rmtree(self._folder(folder), ignore_errors=True)

    def collect_garbage(self, quarantine_s: float = QUARANTINE_S) -> int:
        """Remove folders without a row whose writer is dead, and say how many.

        A writer holds a lock on its folder until its row is committed, so no age is needed.

        Args:
            quarantine_s: how long damaged artifacts are kept while their document exists.
        """
        names = [entry.name for entry in os.scandir(self._root) if FOLDER.match(entry.name)]
        with self._db.reading() as session:
            known = set(session.scalars(select(Artifact.folder)))
        return sum(self._collect(name, quarantine_s) for name in names if name not in known)

    def _collect(self, name: str, quarantine_s: float) -> bool:
        path = self._root / name
        owned = own_folder(path)
        if owned is None:
            return False
        try:
            if self._is_kept(name, path, quarantine_s):
                return False
            shutil.rmtree(path, ignore_errors=True)
            self._log().info("removed a folder without a row", folder=name)
            return True
        finally:
            os.close(owned)

    def _is_kept(self, name: str, path: Path, quarantine_s: float) -> bool:
        """Whether a row has come since the folder was listed, or it is in quarantine."""
        if name.endswith(QUARANTINE):
            document_id = UUID(name.split(".")[0])
            wanted = select(Document.id).where(Document.id == document_id)
            if time.time() - path.stat().st_mtime > quarantine_s:
                return False
        else:
            wanted = select(Artifact.id).where(Artifact.folder == name)
        with self._db.reading() as session:
            return session.scalar(wanted) is not None

    def _files(
        self, folder: Path, manifest: Mapping[str, Any], artifact: ArtifactRecord
    ) -> Iterator[tuple[str, bytes]]:
        for name, described in manifest["files"].items():
            with self._judged(artifact):
                data = _read(folder / name, described["num_bytes"])
                if len(data) != described["num_bytes"] or _hash(data) != described["blake3"]:
                    raise CorruptArtifact(DAMAGED)
            yield name, data

    @contextmanager
    def _judged(self, artifact: ArtifactRecord) -> Iterator[None]:
        """Tell damage from a passing fault, and from an artifact that was just replaced."""
        try:
            yield
        except CorruptArtifact as error:
            raise self._verdict(artifact) from error
        except OSError as error:
            if error.errno not in NOT_WHAT_IT_WAS:
                raise Transient(AWAY) from error
            raise self._verdict(artifact) from error

    def _verdict(self, artifact: ArtifactRecord) -> LecternError:
        with self._db.reading() as session:
            row = session.scalar(select(Artifact.id).where(Artifact.id == artifact.id))
        if row is None:
            return CacheRebuilding(REPLACED)
        self._log().error("damaged artifact", document_id=str(artifact.document_id))
        return CorruptArtifact(DAMAGED)

    def _folder(self, name: str) -> Path:
        if FOLDER.fullmatch(name) is None:
            raise CorruptArtifact(DAMAGED)
        return self._root / name

    def _log(self) -> Any:
        return structlog.get_logger("lectern.storage")


def _read(path: Path, most: int) -> bytes:
    """Read a regular file of at most `most` bytes. Raises: CorruptArtifact, OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if os.fstat(descriptor).st_size > most:
            raise CorruptArtifact(DAMAGED)
        return file.read(most)


def _hash(data: bytes) -> str:
    return blake3(data, max_threads=blake3.AUTO).hexdigest()


def _check_binding(manifest: Mapping[str, Any], artifact: ArtifactRecord) -> None:
    """Swapped folders carry another's binding."""
    expected = {
        "tenant_id": str(artifact.tenant_id),
        "document_id": str(artifact.document_id),
        "fingerprint": artifact.fingerprint,
    }
    if manifest["binding"] != expected:
        raise CorruptArtifact(DAMAGED)
