"""Artifacts: folders that become visible as a whole, and are used only if their hashes match."""

import errno
import json
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog
from blake3 import blake3
from sqlalchemy import ColumnElement, delete, select, true, update

from common.errors import CacheRebuilding, CorruptArtifact, DocumentDeleted, LecternError, Transient
from storage.artifacts.draft import FOLDER, MANIFEST, ArtifactDraft, no_confirm, no_failpoint
from storage.db.database import Database
from storage.db.records import ArtifactRecord, record
from storage.db.tables import Artifact, Document
from storage.files import lock_folder
from storage.jobs import transitions
from storage.jobs.transitions import DELETED_MESSAGE

QUARANTINE_SUFFIX = ".quarantine"
QUARANTINE_S = 24 * 3600.0
USED_EVERY = timedelta(hours=1)
OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
AHEAD_BYTES = 64 << 20  # of a file, read before they are asked for
MAX_MANIFEST_BYTES = 64 * 1024 * 1024
DAMAGED = "The stored cache is damaged."
REPLACED = "The stored cache was replaced while it was being loaded; ask again."
UNREADABLE = "The stored cache cannot be read at the moment."
# These errors say that a file is not what was published, rather than that reading failed this time.
DAMAGE_ERRNOS = frozenset(
    {errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.EIO, errno.ENXIO}
)


class StoredFile:
    """A file of an artifact that is read once, in order, and hashed on the way.

    Attributes:
        num_bytes: of the whole file.
    """

    def __init__(self, descriptor: int, expected: Mapping[str, Any]) -> None:
        self.num_bytes = int(expected["num_bytes"])
        self._descriptor = descriptor
        self._expected = expected["blake3"]
        self._position = self._ahead = 0  # bytes that were read, and that the system reads by now
        self._hash = blake3()
        self._read_ahead()

    def read_into(self, buffer: memoryview) -> None:
        """Read the next bytes, as many as the buffer holds.

        Raises: CorruptArtifact if the file ends before; OSError.
        """
        unread = buffer.cast("B")
        while len(unread):
            num_bytes = os.preadv(self._descriptor, [unread], self._position)
            if num_bytes == 0:
                raise CorruptArtifact(DAMAGED)
            self._position += num_bytes
            unread = unread[num_bytes:]
        self._read_ahead()
        self._hash.update(buffer)

    def _read_ahead(self) -> None:
        """Let the operating system read on while these bytes are hashed and copied."""
        begin, end = self._ahead, min(self._position + AHEAD_BYTES, self.num_bytes)
        if end > begin:
            self._ahead = end
            with suppress(OSError):  # some file systems take no advice
                _advise(self._descriptor, begin, end - begin)

    def verify(self) -> None:
        """Return if the whole file was read and is what was published. Raises: CorruptArtifact."""
        if self._position != self.num_bytes or self._hash.hexdigest() != self._expected:
            raise CorruptArtifact(DAMAGED)


@dataclass(frozen=True)
class StoredArtifact:
    """An artifact that is being loaded.

    Attributes:
        manifest: the verified manifest.
        open: opens one of its files by name, on any thread. Within the block as at its beginning,
            it raises what `Artifacts.load` does; KeyError for a file that the manifest lacks.
        read_ahead: lets the operating system read the beginning of one of its files, by name, which
            is opened soon; nothing happens if it cannot.
        names: of the files that `files` yields; None for all.
    """

    manifest: dict[str, Any]
    open: Callable[[str], AbstractContextManager[StoredFile]]
    read_ahead: Callable[[str], None]
    names: Collection[str] | None = None

    @property
    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield (name, bytes) of each file, read and verified when the iterator reaches it."""
        for name in self.manifest["files"]:
            if self.names is not None and name not in self.names:
                continue
            with self.open(name) as file:
                data = bytearray(file.num_bytes)
                file.read_into(memoryview(data))
                file.verify()
            yield name, bytes(data)


class Artifacts:
    """The artifacts below one folder.

    Args:
        root: the folder, made if it is missing.
        failpoint: called with the name of each step of publishing that is done; tests use it to
            end a process there.
        fingerprint: names a model and settings: only their artifacts are current. Empty for any.
        confirm: called before anything is published; raises if the fingerprint is wrong.
    """

    def __init__(
        self,
        db: Database,
        root: Path,
        failpoint: Callable[[str], None] = no_failpoint,
        fingerprint: str = "",
        confirm: Callable[[], None] = no_confirm,
    ) -> None:
        self._db = db
        self._root = root
        self._failpoint = failpoint
        self._fingerprint = fingerprint
        self._confirm = confirm

    def of(self, fingerprint: str, confirm: Callable[[], None] = no_confirm) -> "Artifacts":
        """Return the same artifacts, of which only those of one fingerprint are current.

        Args:
            confirm: called before anything is published; raises if the fingerprint is wrong.
        """
        return Artifacts(self._db, self._root, self._failpoint, fingerprint, confirm)

    def draft(self, document_id: UUID, fingerprint: str) -> ArtifactDraft:
        """Begin an artifact of a document.

        Args:
            fingerprint: names the model and the settings that the artifact is made with.
        Returns: a context manager, which removes everything again unless it was published.
        Raises: DocumentDeleted.
        """
        with self._db.reading() as session:
            owner = select(Document.tenant_id).where(Document.id == document_id)
            tenant_id = session.scalar(owner)
        if tenant_id is None:
            raise DocumentDeleted(DELETED_MESSAGE)
        binding = {
            "tenant_id": str(tenant_id),
            "document_id": str(document_id),
            "fingerprint": fingerprint,
        }
        return ArtifactDraft(self._db, self._root, binding, self._failpoint, self._confirm)

    def current(self, document_id: UUID) -> ArtifactRecord | None:
        """Return the published artifact of a document."""
        return self.current_of([document_id]).get(document_id)

    def current_of(self, document_ids: Iterable[UUID]) -> Mapping[UUID, ArtifactRecord]:
        """Return the published artifacts of several documents with one query.

        Returns: the artifacts by document id; documents without an artifact are left out.
        """
        oldest_first = (
            select(Artifact, Document.tenant_id)
            .join(Document, Document.id == Artifact.document_id)
            .where(Artifact.document_id.in_(tuple(document_ids)), self._is_current())
            .order_by(Artifact.created_at)
        )
        with self._db.reading() as session:
            return {  # if any fingerprint will do, the newest artifact replaces the others
                row.document_id: record(ArtifactRecord, row, tenant_id=tenant_id)
                for row, tenant_id in session.execute(oldest_first)
            }

    def touch(self, artifact: ArtifactRecord) -> None:
        """Note that an artifact is being used, if that was not noted within the last hour."""
        with self._db.reading() as session:
            now = self._db.now(session)
        if artifact.used_at is not None and abs(now - artifact.used_at) < USED_EVERY:
            return
        with self._db.session() as session:
            used = update(Artifact).where(Artifact.id == artifact.id)
            session.execute(used.values(used_at=now))

    def load(
        self, artifact: ArtifactRecord, names: Collection[str] | None = None
    ) -> StoredArtifact:
        """Read an artifact with bounded reads, and hand out only what was verified.

        Args:
            names: the files that are wanted; None for all.
        Returns: the manifest, and the means to read the files.
        Raises: CorruptArtifact if anything differs from what was published, CacheRebuilding if the
            artifact was replaced meanwhile, Transient if it cannot be read at the moment; all of
            them also while the files are read.
        """
        folder = self._folder(artifact.folder)
        with self._classified_errors(artifact):
            data = _read(folder / MANIFEST, MAX_MANIFEST_BYTES)
            if blake3(data).hexdigest() != artifact.manifest_hash:
                raise CorruptArtifact(DAMAGED)
            manifest = json.loads(data)
            _check_binding(manifest, artifact)
        open_file = partial(self._open, folder, manifest, artifact)
        return StoredArtifact(manifest, open_file, partial(_read_ahead, folder), names)

    def quarantine(self, artifact: ArtifactRecord) -> None:
        """Take a damaged artifact out of use, keep its files for a day and queue its document.

        Nothing happens if the artifact was replaced or deleted meanwhile.
        """
        with self._db.session() as session:
            document = transitions.lock_document(session, artifact.document_id)
            damaged = delete(Artifact).where(Artifact.id == artifact.id).returning(Artifact.id)
            if document is None or session.execute(damaged).first() is None:
                return
            now = self._db.now(session)
            transitions.enqueue(session, document, now, artifact.fingerprint)
        path = self._folder(artifact.folder)
        try:
            os.utime(path)
            path.rename(path.with_name(path.name + QUARANTINE_SUFFIX))
        except OSError as error:  # it is missing, or garbage collection will remove it
            self._log().warning("artifact not quarantined", reason=type(error).__name__)

    def remove(self, folder: str) -> None:
        """Remove the folder of an artifact whose row was deleted; `folder` is its name."""
        shutil.rmtree(self._folder(folder), ignore_errors=True)

    def remove_unpublished(self, document_id: UUID) -> None:
        """Remove the folders of a deleted document that have no row, but for one being written.

        Whoever writes one finds the document gone and removes it.
        """
        for entry in self._entries():
            if entry.name.startswith(f"{document_id}.") and FOLDER.match(entry.name):
                lock = lock_folder(self._root / entry.name)
                if lock is not None:
                    shutil.rmtree(self._root / entry.name, ignore_errors=True)
                    os.close(lock)

    def unclaimed(self) -> tuple[str, ...]:
        """Return the names of folders that have no row and that no process is writing."""
        names = [entry.name for entry in self._entries() if FOLDER.match(entry.name)]
        with self._db.reading() as session:
            published = set(session.scalars(select(Artifact.folder)))
        return tuple(name for name in names if name not in published and self._is_idle(name))

    def _is_idle(self, name: str) -> bool:
        lock = lock_folder(self._root / name)
        if lock is not None:
            os.close(lock)
        return lock is not None

    def collect_garbage(self, quarantine_s: float = QUARANTINE_S) -> int:
        """Remove folders that have no row and that no process is writing.

        A writer holds a lock on its folder until the row is committed, so the age of a folder does
        not matter.

        Args:
            quarantine_s: seconds for which damaged artifacts are kept while their document exists.
        Returns: how many folders were removed.
        """
        names = [entry.name for entry in self._entries() if FOLDER.match(entry.name)]
        with self._db.reading() as session:
            published = set(session.scalars(select(Artifact.folder)))
        return sum(self._collect(name, quarantine_s) for name in names if name not in published)

    def _collect(self, name: str, quarantine_s: float) -> bool:
        path = self._root / name
        lock = lock_folder(path)
        if lock is None:
            return False
        try:
            if self._must_stay(name, path, quarantine_s):
                return False
            shutil.rmtree(path, ignore_errors=True)
            self._log().info("removed artifact folder without a row", folder=name)
            return True
        finally:
            os.close(lock)

    def _must_stay(self, name: str, path: Path, quarantine_s: float) -> bool:
        """Whether the folder got a row after it was listed, or is still in quarantine."""
        if name.endswith(QUARANTINE_SUFFIX):
            document_id = UUID(name.split(".")[0])
            owner = select(Document.id).where(Document.id == document_id)
            if time.time() - path.stat().st_mtime > quarantine_s:
                return False
        else:
            owner = select(Artifact.id).where(Artifact.folder == name)
        with self._db.reading() as session:
            return session.scalar(owner) is not None

    @contextmanager
    def _open(
        self, folder: Path, manifest: Mapping[str, Any], artifact: ArtifactRecord, name: str
    ) -> Iterator[StoredFile]:
        expected = manifest["files"][name]
        with self._classified_errors(artifact):
            descriptor = os.open(folder / name, OPEN_FLAGS)
            try:
                if os.fstat(descriptor).st_size != expected["num_bytes"]:
                    raise CorruptArtifact(DAMAGED)
                if hasattr(os, "posix_fadvise"):
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)
                yield StoredFile(descriptor, expected)
            finally:
                os.close(descriptor)

    @contextmanager
    def _classified_errors(self, artifact: ArtifactRecord) -> Iterator[None]:
        """Tell damage from a temporary fault, and from an artifact that was just replaced.

        Raises: CorruptArtifact, Transient or CacheRebuilding.
        """
        try:
            yield
        except CorruptArtifact as error:
            raise self._damaged_or_replaced(artifact) from error
        except OSError as error:
            if error.errno not in DAMAGE_ERRNOS:
                raise Transient(UNREADABLE) from error
            raise self._damaged_or_replaced(artifact) from error

    def _damaged_or_replaced(self, artifact: ArtifactRecord) -> LecternError:
        with self._db.reading() as session:
            row = session.scalar(select(Artifact.id).where(Artifact.id == artifact.id))
        if row is None:
            return CacheRebuilding(REPLACED)
        self._log().error("damaged artifact", document_id=str(artifact.document_id))
        return CorruptArtifact(DAMAGED)

    def _is_current(self) -> ColumnElement[bool]:
        return Artifact.fingerprint == self._fingerprint if self._fingerprint else true()

    def _entries(self) -> Sequence["os.DirEntry[str]"]:
        """Return what is in the root folder, which the first artifact makes."""
        return list(os.scandir(self._root)) if self._root.is_dir() else []

    def _folder(self, name: str) -> Path:
        if FOLDER.fullmatch(name) is None:
            raise CorruptArtifact(DAMAGED)
        return self._root / name

    def _log(self) -> Any:
        return structlog.get_logger("lectern.storage")


def _read(path: Path, max_bytes: int) -> bytes:
    """Read a regular file of at most `max_bytes` bytes. Raises: CorruptArtifact, OSError."""
    descriptor = os.open(path, OPEN_FLAGS)
    with os.fdopen(descriptor, "rb") as file:
        if os.fstat(descriptor).st_size > max_bytes:
            raise CorruptArtifact(DAMAGED)
        return file.read(max_bytes)


def _read_ahead(folder: Path, name: str) -> None:
    """See `StoredArtifact.read_ahead`."""
    with suppress(OSError):
        descriptor = os.open(folder / name, OPEN_FLAGS)
        try:
            _advise(descriptor, 0, AHEAD_BYTES)
        finally:
            os.close(descriptor)


def _advise(descriptor: int, begin: int, num_bytes: int) -> None:
    """Tell the operating system, if it takes advice, that bytes of a file are read soon."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, begin, num_bytes, os.POSIX_FADV_WILLNEED)


def _check_binding(manifest: Mapping[str, Any], artifact: ArtifactRecord) -> None:
    """Refuse a manifest that was written for another document, tenant or fingerprint."""
    expected = {
        "tenant_id": str(artifact.tenant_id),
        "document_id": str(artifact.document_id),
        "fingerprint": artifact.fingerprint,
    }
    if manifest["binding"] != expected:
        raise CorruptArtifact(DAMAGED)
