"""Jobs: the durable queue of documents to read, with leases and fencing tokens."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import ColumnElement, func, or_, select, update
from sqlalchemy.orm import Session, aliased

from common.errors import DocumentNotFound, JobCancelled
from common.status import DocumentStatus, JobStatus, Phase
from storage.db.database import Database
from storage.db.records import JobRecord, record
from storage.db.tables import Artifact, Document, Job
from storage.jobs import transitions
from storage.jobs.liveness import ClockJumps
from storage.jobs.transitions import (
    ACTIVE_STATUSES,
    CANCELLED_MESSAGE,
    NO_LEASE,
    mark_failed,
    mark_reading,
    mark_ready,
    mark_waiting,
    update_claimed_job,
)

CRASHED = "worker_crashed"
CRASHED_MESSAGE = (
    "The worker died {crashes} times while it read this document, so it was set aside. The "
    "document may need more memory than there is; upload it again for another try."
)
LONGEST_DELAY_S = 60.0
MAX_SWEPT_JOBS = 100


class Jobs:
    """The queue of jobs.

    All times are the database server's, so that the clocks of workers need not agree. That clock
    may still be set. After such a jump no lease counts as expired until its owner has had the time
    to renew it, and a heartbeat or a delay that lies in the future counts as over, so that no job
    waits for it. Whatever else a jump confuses is stopped by the fencing tokens.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._clock_jumps = ClockJumps()

    # -- for everybody -------------------------------------------------------------------------

    def enqueue(self, document_id: UUID) -> JobRecord:
        """Queue a document to be read, or read again; return its active job if it has one.

        Raises: DocumentNotFound.
        """
        with self._db.session() as session:
            document = transitions.lock_document(session, document_id)
            if document is None:
                raise DocumentNotFound
            job = transitions.enqueue(session, document, self._db.now(session))
            return record(JobRecord, job)

    def enqueue_stale(self, fingerprint: str) -> Sequence[UUID]:
        """Queue every ready document that has no artifact of this fingerprint; return their ids."""
        current = select(Artifact.document_id).where(Artifact.fingerprint == fingerprint)
        stale = select(Document.id).where(
            Document.status == DocumentStatus.READY, Document.id.not_in(current)
        )
        with self._db.reading() as session:
            document_ids = tuple(session.scalars(stale))
        for document_id in document_ids:
            with suppress(DocumentNotFound):
                self.enqueue(document_id)
        return document_ids

    def latest(self, document_id: UUID) -> JobRecord | None:
        """Return the active job of a document, or else its newest one."""
        return self.latest_of([document_id]).get(document_id)

    def latest_of(self, document_ids: Iterable[UUID]) -> Mapping[UUID, JobRecord]:
        """Return the job that `latest` returns, for several documents with one query.

        Returns: the jobs by document id; documents without a job are left out.
        """
        is_active = Job.status.in_(ACTIVE_STATUSES)  # first, wherever the clock was set since
        rank = func.row_number().over(
            partition_by=Job.document_id,
            order_by=(is_active.desc(), Job.created_at.desc(), Job.id),
        )
        ranked = (
            select(Job, rank.label("rank"))
            .where(Job.document_id.in_(tuple(document_ids)))
            .subquery()
        )
        latest = select(aliased(Job, ranked)).where(ranked.c.rank == 1)
        with self._db.reading() as session:
            return {row.document_id: record(JobRecord, row) for row in session.scalars(latest)}

    def cancel(self, document_id: UUID) -> bool:
        """Stop the reading of a document, which is failed then; False if no job was active."""
        with self._db.session() as session:
            active = update(Job).where(
                Job.document_id == document_id, Job.status.in_(ACTIVE_STATUSES)
            )
            ended = active.values(
                status=JobStatus.CANCELLED, finished_at=self._db.now(session), **NO_LEASE
            )
            if session.execute(ended.returning(Job.id)).first() is None:
                return False
            mark_failed(session, document_id, JobCancelled.code, CANCELLED_MESSAGE)
            return True

    # -- for workers ---------------------------------------------------------------------------

    def claim(self, owner: str, lease_s: float) -> JobRecord | None:
        """Take the next job that is due, with one conditional UPDATE.

        Args:
            owner: the worker's name, from `WorkerLiveness.new_owner`.
            lease_s: seconds until the job goes to another worker, unless a heartbeat renews it.
        Returns: the job, or None if no job is due.
        """
        with self._db.session() as session:
            now = self._db.now(session)
            too_far = now + timedelta(seconds=2 * LONGEST_DELAY_S)
            is_due = or_(Job.available_at <= now, Job.available_at > too_far)
            first = select(Job.id).where(Job.status == JobStatus.QUEUED, is_due)
            first = first.order_by(Job.available_at, Job.id).limit(1)
            claim = (
                update(Job)
                .where(Job.id == first.with_for_update(skip_locked=True).scalar_subquery())
                .where(Job.status == JobStatus.QUEUED)
                .values(
                    status=JobStatus.RUNNING,
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
            mark_reading(session, row.document_id)
            return record(JobRecord, row)

    def heartbeat(self, job: JobRecord, lease_s: float) -> None:
        """Renew the lease of a job.

        Args:
            lease_s: seconds from now until the lease ends.
        Raises: LeaseLost, JobCancelled or DocumentDeleted, as `progress` does.
        """
        with self._db.session() as session:
            update_claimed_job(session, job, **_lease(self._db.now(session), lease_s))

    def progress(self, job: JobRecord, phase: Phase, tokens_done: int, tokens_total: int) -> None:
        """Write how far a job is.

        Raises: LeaseLost, JobCancelled or DocumentDeleted if the job no longer belongs to the
            caller; nothing was written then, and the caller must stop.
        """
        with self._db.session() as session:
            update_claimed_job(
                session,
                job,
                phase=str(phase),
                tokens_done=tokens_done,
                tokens_total=tokens_total,
            )

    def finish(self, job: JobRecord) -> None:
        """End a job whose document has a current artifact already.

        Raises: LeaseLost, JobCancelled or DocumentDeleted, as `progress` does.
        """
        with self._db.session() as session:
            now = self._db.now(session)
            update_claimed_job(session, job, status=JobStatus.DONE, finished_at=now, **NO_LEASE)
            mark_ready(session, job.document_id, now)

    def fail(self, job: JobRecord, code: str, message: str) -> None:
        """End a job whose document cannot be read; the document is failed then.

        Raises: LeaseLost, JobCancelled or DocumentDeleted, as `progress` does.
        """
        with self._db.session() as session:
            update_claimed_job(
                session,
                job,
                status=JobStatus.FAILED,
                finished_at=self._db.now(session),
                error_code=code,
                error_message=message,
                **NO_LEASE,
            )
            mark_failed(session, job.document_id, code, message)

    def release(self, job: JobRecord, *, delay_s: float = 0.0, crashed: bool = False) -> None:
        """Put a job back into the queue.

        Args:
            delay_s: seconds until it may be claimed again, at most `LONGEST_DELAY_S`.
            crashed: whether this attempt counts as a crash.
        Raises: LeaseLost, JobCancelled or DocumentDeleted, as `progress` does.
        """
        with self._db.session() as session:
            delay = timedelta(seconds=min(delay_s, LONGEST_DELAY_S))
            update_claimed_job(
                session,
                job,
                status=JobStatus.QUEUED,
                available_at=self._db.now(session) + delay,
                crashes=Job.crashes + (1 if crashed else 0),
                **NO_LEASE,
            )
            mark_waiting(session, job.document_id)

    def sweep(self, max_attempts: int, dead_owners: Sequence[str] = ()) -> Sequence[UUID]:
        """Take jobs away from workers that died.

        Such a job is queued again; after `max_attempts` crashes it is failed as `worker_crashed`;
        and if its artifact was published before the worker died, it is done.

        Args:
            dead_owners: workers that are known to be dead; the others are judged by their leases.
        Returns: the ids of the jobs that are queued again.
        """
        with self._db.session() as session:
            now = self._db.now(session)
            is_lost: ColumnElement[bool] = Job.lease_owner.in_(dead_owners)
            if self._clock_jumps.has_settled(now):
                is_lost = or_(is_lost, _has_expired(now))
            lost = select(Job).where(Job.status == JobStatus.RUNNING, is_lost)
            lost = lost.limit(MAX_SWEPT_JOBS).with_for_update(skip_locked=True)
            jobs = list(session.scalars(lost))
            return tuple(job.id for job in jobs if _end_or_requeue(session, job, now, max_attempts))


def _lease(now: datetime, lease_s: float) -> dict[str, datetime]:
    return {"heartbeat_at": now, "lease_expires_at": now + timedelta(seconds=lease_s)}


def _has_expired(now: datetime) -> ColumnElement[bool]:
    too_far = now + timedelta(seconds=LONGEST_DELAY_S)
    return or_(Job.lease_expires_at <= now, Job.heartbeat_at > too_far)


def _end_or_requeue(session: Session, job: Job, now: datetime, max_attempts: int) -> bool:
    """End the job of a dead worker, or queue it again; True if it is queued again."""
    job.lease_owner = job.lease_expires_at = job.heartbeat_at = None
    job.crashes += 1
    published = select(Artifact.id).where(
        Artifact.document_id == job.document_id,
        # Not an artifact from before the clock was set back, which seems to lie in the future.
        Artifact.created_at.between(job.created_at, now),
    )
    if session.scalar(published) is not None:
        job.status, job.finished_at = JobStatus.DONE, now
        mark_ready(session, job.document_id, now)
        return False
    if job.crashes >= max_attempts:
        job.status, job.finished_at = JobStatus.FAILED, now
        job.error_code, job.error_message = CRASHED, CRASHED_MESSAGE.format(crashes=job.crashes)
        mark_failed(session, job.document_id, CRASHED, job.error_message)
        return False
    job.status, job.available_at = JobStatus.QUEUED, now
    mark_waiting(session, job.document_id)
    return True
