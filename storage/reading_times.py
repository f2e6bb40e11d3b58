"""How long it will take until a document is read, judged by those that were read lately."""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from common.errors import Transient
from common.status import JobStatus
from storage.db.database import Database
from storage.db.tables import Document, Job

NUM_RECENT = 20
OVERDUE_SHARE = 0.1  # of the time that a job has taken, when it takes longer than was expected


class ReadingTimes:
    """Estimates from the jobs of all tenants; nothing about a document but its size is used."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def seconds_until_ready(self, document_id: UUID) -> float | None:
        """Estimate the seconds until a document that waits or is being read is ready.

        Returns: None if no document was read yet, this one is not to be read, or the database does
            not answer.
        """
        try:
            with self._db.reading() as session:
                return _seconds_until_ready(session, document_id, self._db.now(session))
        except Transient:
            return None

    def seconds_until_all_ready(self) -> Mapping[UUID, float]:
        """Estimate the seconds until each document that waits or is being read is ready.

        Returns: by document; nothing if no document was read yet, or the database does not answer.
        """
        try:
            with self._db.reading() as session:
                return _seconds_until_all_ready(session, self._db.now(session))
        except Transient:
            return {}


def _seconds_until_all_ready(session: Session, now: datetime) -> Mapping[UUID, float]:
    pace = _seconds_per_byte(session)
    if pace is None:
        return {}
    left = _seconds_left_of_running_jobs(session, pace, now)
    workers, before = max(1, len(left)), sum(left.values())
    waiting = select(Job.document_id, Document.num_bytes).join(Document)
    waiting = waiting.where(Job.status == JobStatus.QUEUED).order_by(Job.created_at)
    for row in session.execute(waiting):
        before += pace * row.num_bytes
        left[row.document_id] = before / workers
    return left


def _seconds_until_ready(session: Session, document_id: UUID, now: datetime) -> float | None:
    pace = _seconds_per_byte(session)
    job = session.scalar(
        select(Job).where(
            Job.document_id == document_id, Job.status.in_((JobStatus.QUEUED, JobStatus.RUNNING))
        )
    )
    if pace is None or job is None:
        return None
    running = _seconds_left_of_running_jobs(session, pace, now)
    if document_id in running:
        return running[document_id]
    before = select(func.coalesce(func.sum(Document.num_bytes), 0)).join(Job)
    before = before.where(Job.status == JobStatus.QUEUED, Job.created_at <= job.created_at)
    num_bytes = int(session.scalar(before) or 0)  # its own are among them
    return (sum(running.values()) + pace * num_bytes) / max(1, len(running))


def _seconds_per_byte(session: Session) -> float | None:
    """Return the mean pace of the jobs that were done last; None if none was."""
    recent = (
        select(Job.started_at, Job.finished_at, Document.num_bytes)
        .join(Document, Document.id == Job.document_id)
        .where(Job.status == JobStatus.DONE)
        .order_by(Job.available_at.desc())  # there is an index on this, which is close enough
        .limit(NUM_RECENT)
    )
    rows = [row for row in session.execute(recent) if row.started_at and row.finished_at]
    seconds = sum(_seconds(row.started_at, row.finished_at) for row in rows)
    num_bytes = sum(row.num_bytes for row in rows)
    return seconds / num_bytes if num_bytes else None


def _seconds_left_of_running_jobs(
    session: Session, pace: float, now: datetime
) -> dict[UUID, float]:
    running = select(Job.document_id, Job.started_at, Document.num_bytes)
    running = running.join(Document).where(Job.status == JobStatus.RUNNING)
    left = {}
    for row in session.execute(running):
        elapsed_s = _seconds(row.started_at or now, now)
        left[row.document_id] = max(pace * row.num_bytes - elapsed_s, OVERDUE_SHARE * elapsed_s)
    return left


def _seconds(start: datetime, end: datetime) -> float:
    return max(0.0, (end - start).total_seconds())
