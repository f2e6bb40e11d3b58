"""Jobs: who reads what, held by leases and fenced by the attempt's number."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import ColumnElement, or_, select, update
from sqlalchemy.orm import Session

from common.errors import Cancelled, DocumentNotFound
from storage.db.database import Database
from storage.db.records import JobRecord, record
from storage.db.tables import Artifact, Document, Job
from storage.jobs import queueing
from storage.jobs.clock_jumps import Leaps
from storage.jobs.fencing import CANCELLED_MESSAGE, IDLE, fenced, mark_ready
from storage.jobs.queueing import NOT_FOUND

CRASHED = "worker_crashed"
CRASHED_MESSAGE = (
    "The worker died {crashes} times while it read this document, so it was set aside. The "
    "document may need more memory than there is; upload it again for another try."
)
LONGEST_DELAY_S = 60.0
SWEPT_AT_ONCE = 100


class Jobs:
    """The queue. Times are the database server's, so that workers' clocks need not agree.

    A wall clock may still be set. Leases are not looked at until their owners have renewed them;
    a heartbeat or a delay that lies in the future counts as over, so that no job hangs on it.
    Attempts fence whatever such a jump confuses.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._leaps = Leaps()

    # -- for everybody -------------------------------------------------------------------------

    def enqueue(self, document_id: UUID) -> JobRecord:
        """Have a document read (again); its active job, if it has one, is returned instead.

        Raises: DocumentNotFound.
        """
        with self._db.session() as session:
            document = queueing.lock_document(session, document_id)
            if document is None:
                raise DocumentNotFound(NOT_FOUND)
            return record(JobRecord, queueing.enqueue(session, document, self._db.now(session)))

    def enqueue_stale(self, fingerprint: str) -> Sequence[UUID]:
        """Queue every ready document that has no artifact of `fingerprint`; return their ids."""
        current = select(Artifact.document_id).where(Artifact.fingerprint == fingerprint)
        stale = select(Document.id).where(
            Document.status == "ready", Document.id.not_in(current)
        )  # fmt: skip
        with self._db.reading() as session:
            found = tuple(session.scalars(stale))
        for document_id in found:
            with suppress(DocumentNotFound):
                self.enqueue(document_id)
        return found

    def latest(self, document_id: UUID) -> JobRecord | None:
        """Return the active job of a document, or else its newest."""
        wanted = select(Job).where(Job.document_id == document_id)
        active = Job.status.in_(queueing.ACTIVE)  # however the clock was set since an older one
        newest = wanted.order_by(active.desc(), Job.created_at.desc(), Job.id).limit(1)
        with self._db.reading() as session:
            row = session.scalar(newest)
            return None if row is None else record(JobRecord, row)

    def cancel(self, document_id: UUID) -> bool:
        """Stop the reading of a document, which counts as failed then; False if none was active."""
        with self._db.session() as session:
            active = update(Job).where(
                Job.document_id == document_id, Job.status.in_(queueing.ACTIVE)
            )
            ended = active.values(status="cancelled", finished_at=self._db.now(session), **IDLE)
            if session.execute(ended.returning(Job.id)).first() is None:
                return False
            _mark_failed(session, document_id, Cancelled.code, CANCELLED_MESSAGE)
            return True

    # -- for workers ---------------------------------------------------------------------------

    def claim(self, owner: str, lease_s: float) -> JobRecord | None:
        """Take the next job, if there is one, with one conditional UPDATE."""
        with self._db.session() as session:
            now = self._db.now(session)
            far = now + timedelta(seconds=2 * LONGEST_DELAY_S)
            due = or_(Job.available_at <= now, Job.available_at > far)
            first = select(Job.id).where(Job.status == "queued", due)
            first = first.order_by(Job.available_at, Job.id).limit(1)
            claim = (
                update(Job)
                .where(Job.id == first.with_for_update(skip_locked=True).scalar_subquery())
                .where(Job.status == "queued")
                .values(
                    status="running",
                    attempt=Job.attempt + 1,
                    lease_owner=owner,
                    phase=None,
                    tokens_done=0,
                    tokens_total=0,
                    started_at=now,
                    **_lease(now, lease_s),
                )
            )
            row = session.scalar(claim.returning(Job))
            if row is None:
                return None
            _turn(session, row.document_id, "queued", "reading")
            return record(JobRecord, row)

    def heartbeat(self, job: JobRecord, lease_s: float) -> None:
        """Keep a job for another `lease_s`. Raises: as `progress`."""
        with self._db.session() as session:
            fenced(session, job, **_lease(self._db.now(session), lease_s))

    def progress(self, job: JobRecord, phase: str, tokens_done: int, tokens_total: int) -> None:
        """Tell how far a job has come.

        Raises: LeaseLost, Cancelled or DocumentDeleted if it is no longer the caller's; nothing
            was written then, and the caller must stop.
        """
        with self._db.session() as session:
            fenced(session, job, phase=phase, tokens_done=tokens_done, tokens_total=tokens_total)

    def finish(self, job: JobRecord) -> None:
        """End a job whose artifact is there already. Raises: as `progress`."""
        with self._db.session() as session:
            now = self._db.now(session)
            fenced(session, job, status="done", finished_at=now, **IDLE)
            mark_ready(session, job.document_id, now)

    def fail(self, job: JobRecord, code: str, message: str) -> None:
        """End a job for good; its document is failed. Raises: as `progress`."""
        with self._db.session() as session:
            now = self._db.now(session)
            why = {"error_code": code, "error_message": message}
            fenced(session, job, status="failed", finished_at=now, **why, **IDLE)
            _mark_failed(session, job.document_id, code, message)

    def release(self, job: JobRecord, *, delay_s: float = 0.0, crashed: bool = False) -> None:
        """Give a job back, to be claimed again after `delay_s` at most LONGEST_DELAY_S.

        Args:
            crashed: whether this attempt counts against the job.
        Raises: as `progress`.
        """
        with self._db.session() as session:
            delay = timedelta(seconds=min(delay_s, LONGEST_DELAY_S))
            fenced(
                session,
                job,
                status="queued",
                available_at=self._db.now(session) + delay,
                crashes=Job.crashes + (1 if crashed else 0),
                **IDLE,
            )
            _turn(session, job.document_id, "reading", "queued")

    def sweep(self, max_attempts: int, dead: Sequence[str] = ()) -> Sequence[UUID]:
        """Take jobs from workers that died.

        A job is queued again, or failed as `worker_crashed` after `max_attempts` crashes; if its
        artifact was published, it is done.

        Args:
            dead: owners known to have died; for the others, leases tell.
        Returns: the ids of jobs that are queued again.
        """
        with self._db.session() as session:
            now = self._db.now(session)
            lost: ColumnElement[bool] = Job.lease_owner.in_(dead)
            if self._leaps.settled(now):
                lost = or_(lost, _expired(now))
            expired = select(Job).where(Job.status == "running", lost)
            expired = expired.limit(SWEPT_AT_ONCE).with_for_update(skip_locked=True)
            jobs = list(session.scalars(expired))
            return tuple(job.id for job in jobs if _take_away(session, job, now, max_attempts))


def _lease(now: datetime, lease_s: float) -> dict[str, datetime]:
    return {"heartbeat_at": now, "lease_expires_at": now + timedelta(seconds=lease_s)}


def _expired(now: datetime) -> ColumnElement[bool]:
    ahead = now + timedelta(seconds=LONGEST_DELAY_S)
    return or_(Job.lease_expires_at <= now, Job.heartbeat_at > ahead)


def _take_away(session: Session, job: Job, now: datetime, max_attempts: int) -> bool:
    """End or requeue a dead worker's job; True if it is queued again."""
    job.lease_owner = job.lease_expires_at = job.heartbeat_at = None
    job.crashes += 1
    published = select(Artifact.id).where(
        Artifact.document_id == job.document_id,
        Artifact.created_at.between(job.created_at, now),  # not from before the clock was set back
    )
    if session.scalar(published) is not None:
        job.status, job.finished_at = "done", now
        mark_ready(session, job.document_id, now)
        return False
    if job.crashes >= max_attempts:
        job.status, job.finished_at = "failed", now
        job.error_code, job.error_message = CRASHED, CRASHED_MESSAGE.format(crashes=job.crashes)
        _mark_failed(session, job.document_id, CRASHED, job.error_message)
        return False
    job.status, job.available_at = "queued", now
    _turn(session, job.document_id, "reading", "queued")
    return True


def _mark_failed(session: Session, document_id: UUID, code: str, message: str) -> None:
    failed = {"status": "failed", "error_code": code, "error_message": message}
    session.execute(update(Document).where(Document.id == document_id).values(**failed))


def _turn(session: Session, document_id: UUID, before: str, after: str) -> None:
    """Change a document's status; one that is rebuilding stays so."""
    chosen = update(Document).where(Document.id == document_id, Document.status == before)
    session.execute(chosen.values(status=after))
