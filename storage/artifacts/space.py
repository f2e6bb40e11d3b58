"""Room for artifacts: what is stored for which model and settings, and what is removed for room.

An artifact of another model or of other settings stays until space is needed or somebody says so.
If space is needed, artifacts go in this order, the one that was used the longest ago first: those
of fingerprints that no running process has, then, under a limit of bytes, our own. Artifacts of
other running processes are never removed.
"""

import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from uuid import UUID

import structlog
from sqlalchemy import ColumnElement, and_, delete, func, select

from common.status import DocumentStatus
from storage.db.database import Database
from storage.db.tables import Artifact, Document, Process

BATCH = 100


@dataclass(frozen=True)
class StoredCaches:
    """The artifacts of one fingerprint.

    Attributes:
        num_bytes: of all their files.
        used_at: when one of them was last used; None if that is not known.
        is_in_use: whether a running process has this fingerprint.
    """

    fingerprint: str
    num_documents: int
    num_bytes: int
    used_at: datetime | None
    is_in_use: bool


@dataclass(frozen=True)
class UnreadDocuments:
    """Documents that were read, but not with a certain model and settings.

    Attributes:
        num_tokens: of all of them, as far as known.
    """

    document_ids: tuple[UUID, ...]
    num_tokens: int


class ArtifactSpace:
    """The artifacts of all documents, and the bytes that they take.

    Args:
        root: the folder of artifacts.
        fingerprint: names our own model and settings.
        limit_bytes: bytes that all artifacts may take; 0 for as many as the disk holds.
    """

    def __init__(self, db: Database, root: Path, fingerprint: str, limit_bytes: int) -> None:
        self._db = db
        self._root = root
        self._fingerprint = fingerprint
        self._limit_bytes = limit_bytes

    def stored(self) -> Sequence[StoredCaches]:
        """Return what is stored, by fingerprint, the largest first."""
        in_use = select(Process.fingerprint)
        total = func.sum(Artifact.num_bytes)
        by_fingerprint = (
            select(
                Artifact.fingerprint,
                func.count(),
                total,
                func.max(Artifact.used_at),
                Artifact.fingerprint.in_(in_use),
            )
            .group_by(Artifact.fingerprint)
            .order_by(total.desc())
        )
        with self._db.reading() as session:
            rows = session.execute(by_fingerprint).all()
        return [
            StoredCaches(name, count, int(num_bytes), used_at, bool(is_in_use))
            for name, count, num_bytes, used_at, is_in_use in rows
        ]

    def unread(self) -> UnreadDocuments:
        """Return the documents that were read, but have no artifact of our fingerprint."""
        own = and_(Artifact.document_id == Document.id, Artifact.fingerprint == self._fingerprint)
        unread = (
            select(Document.id, func.coalesce(Document.num_tokens, 0))
            .outerjoin(Artifact, own)
            .where(Document.status == DocumentStatus.READY, Artifact.id.is_(None))
            .order_by(Document.created_at, Document.id)
        )
        with self._db.reading() as session:
            rows = session.execute(unread).all()
        return UnreadDocuments(
            tuple(document_id for document_id, _ in rows), sum(tokens for _, tokens in rows)
        )

    def trim(self) -> int:
        """Remove artifacts until all others fit into the limit; return how many bytes were freed.

        Our own artifact that was used last stays, even if it is larger than the limit.
        """
        if not self._limit_bytes:
            return 0
        with self._db.reading() as session:
            total = session.scalar(select(func.coalesce(func.sum(Artifact.num_bytes), 0)))
        excess = int(total or 0) - self._limit_bytes
        freed = self.free(excess)
        if freed < excess:
            own = Artifact.fingerprint == self._fingerprint
            freed += _log(self._evict(excess - freed, own, keep=1), "used the longest ago")
        return freed

    def free(self, num_bytes: int) -> int:
        """Remove artifacts that no running process uses, until so many bytes are free.

        Returns: how many bytes were freed.
        """
        in_use = select(Process.fingerprint)
        is_unused = and_(
            Artifact.fingerprint != self._fingerprint, Artifact.fingerprint.not_in(in_use)
        )
        return _log(self._evict(num_bytes, is_unused), "of settings that no process has")

    def drop(self, fingerprints: Collection[str]) -> int:
        """Remove all artifacts of these fingerprints; return how many bytes were freed."""
        return self._evict(None, Artifact.fingerprint.in_(fingerprints))

    def _evict(self, num_bytes: int | None, which: ColumnElement[bool], keep: int = 0) -> int:
        """Remove artifacts for which a condition holds, the one used the longest ago first.

        Args:
            num_bytes: how many to free; None for all.
            keep: how many of the artifacts stay, those that were used last.
        """
        freed = 0
        while num_bytes is None or freed < num_bytes:
            missing = None if num_bytes is None else num_bytes - freed
            batch = self._evict_batch(missing, which, keep)
            if batch == 0:
                break
            freed += batch
        return freed

    def _evict_batch(self, num_bytes: int | None, which: ColumnElement[bool], keep: int) -> int:
        newest_first = (Artifact.used_at.desc().nulls_last(), Artifact.id)
        kept = select(Artifact.id).where(which).order_by(*newest_first).limit(keep)
        oldest_first = (Artifact.used_at.asc().nulls_first(), Artifact.id)
        oldest = (
            select(Artifact.id, Artifact.folder, Artifact.num_bytes)
            .where(which, Artifact.id.not_in(kept))
            .order_by(*oldest_first)
            .limit(BATCH)
        )
        freed, folders = 0, []
        with self._db.session() as session:
            for artifact_id, folder, size in session.execute(oldest).all():
                if num_bytes is not None and freed >= num_bytes:
                    break
                gone = delete(Artifact).where(Artifact.id == artifact_id).returning(Artifact.id)
                if session.execute(gone).first() is not None:
                    freed += size
                    folders.append(folder)
        for folder in folders:  # what cannot be removed now, garbage collection will remove
            shutil.rmtree(self._root / folder, ignore_errors=True)
        return freed


def _log(freed: int, reason: str) -> int:
    if freed:
        log = structlog.get_logger("lectern.storage")
        log.warning("caches removed to make room", num_bytes=freed, reason=reason)
    return freed
