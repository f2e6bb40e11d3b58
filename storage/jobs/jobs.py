"""Jobs: the durable queue of documents to read, with leases and fencing tokens."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import and_, func, select, update
from sqlalchemy.orm import Session, aliased

from common.errors import DocumentNotFound, JobCancelled
from common.status import JobStatus, Phase
from storage.db.database import Database
from storage.db.records import JobRecord, QueueCounts, QueueState, record
from storage.db.tables import Job
from storage.jobs import transitions
from storage.jobs.liveness import ClockJumps
from storage.jobs.order import LONGEST_DELAY_S, is_due, next_job, note_turn
from storage.jobs.recovery import requeue_lost_jobs
from storage.jobs.transitions import (
    ACTIVE_STATUSES,
    CANCELLED_MESSAGE,
    NO_LEASE,
    check_claimed_job,
    mark_failed,
    mark_reading,
    mark_ready,
    mark_waiting,
    update_claimed_job,
)


class Jobs:
    """The queue of jobs.

    All times are the database server's, so that the clocks of workers need not agree. That clock
    may still be set. After such a jump no lease counts as expired until its owner has had the time
    to renew it, and a heartbeat or a delay that lies in the future counts as over, so that no job
    waits for it. Whatever else a jump confuses is stopped by the fencing tokens.

    Args:
        fingerprint: names a model and settings: jobs are queued to be read with these, and only
            such jobs are claimed. Empty for any.
        clock_jumps: what this process knows of the clock.
    """

    def __init__(
        self, db: Database, fingerprint: str = "", clock_jumps: ClockJumps | None = None
    ) -> None:
        self._db = db
        self._fingerprint = fingerprint
        self._clock_jumps = clock_jumps or ClockJumps()

    def of(self, fingerprint: str) -> "Jobs":
        """Return the same queue, for one fingerprint."""
        return Jobs(self._db, fingerprint, self._clock_jumps)

    # -- for everybody -------------------------------------------------------------------------

    def enqueue(
        self,
        document_id: UUID,
        priority: int = 0,
        admit: Callable[[Session], None] = lambda _: None,
    ) -> JobRecord:
        """Queue a document to be read, or read again; return its active job if it has one.

        Args:
            priority: the highest of a tenant's jobs are taken first.
            admit: called first in the transaction, to raise what forbids it.
        Raises: DocumentNotFound.
        """
        with self._db.session() as session:
            admit(session)
            document = transitions.lock_document(session, document_id)
            if document is None:
                raise DocumentNotFound
            now = self._db.now(session)
            job = transitions.enqueue(session, document, now, self._fingerprint, priority)
            return record(JobRecord, job)

    def enqueue_all(self, document_ids: Iterable[UUID]) -> int:
        """Queue several documents to be read again; return how many of them there still are."""
        num_queued = 0
        for document_id in document_ids:
            with suppress(DocumentNotFound):
                self.enqueue(document_id)
                num_queued += 1
        return num_queued

    def latest(self, document_id: UUID) -> JobRecord | None:
        """Return the active job of a document, ours before others, or else its newest one."""
        return self.latest_of([document_id]).get(document_id)

    def latest_of(self, document_ids: Iterable[UUID]) -> Mapping[UUID, JobRecord]:
        """Return the job that `latest` returns, for several documents with one query.

        Returns: the jobs by document id; documents without a job are left out.
        """
        is_active = Job.status.in_(ACTIVE_STATUSES)  # first, wherever the clock was set since
        is_ours = Job.fingerprint == self._fingerprint
        rank = func.row_number().over(
            partition_by=Job.document_id,
            order_by=(is_active.desc(), is_ours.desc(), Job.created_at.desc(), Job.id),
        )
        ranked = (
            select(Job, rank.label("rank"))
            .where(Job.document_id.in_(tuple(document_ids)))
            .subquery()
        )
        latest = select(aliased(Job, ranked)).where(ranked.c.rank == 1)
        with self._db.reading() as session:
            return {row.document_id: record(JobRecord, row) for row in session.scalars(latest)}

    def queue_state(self) -> QueueState:
        """Return how long jobs wait, and how many are being done."""
        with self._db.reading() as session:
            now = self._db.now(session)
            due = is_due(now, self._fingerprint, None)
            oldest = session.scalar(select(func.min(Job.available_at)).where(due))
            held = and_(Job.status == JobStatus.RUNNING, Job.lease_expires_at > now)
            num_running = session.scalar(select(func.count()).where(held))
        waited_s = 0.0 if oldest is None else (now - oldest).total_seconds()
        return QueueState(max(0.0, waited_s), num_running or 0)

    def counts(self) -> QueueCounts:
        """Count the jobs that wait, and those that are being done by phase."""
        query = (
            select(Job.status, Job.phase, func.count())
            .where(Job.status.in_(ACTIVE_STATUSES))
            .group_by(Job.status, Job.phase)
        )
        waiting, running = 0, dict[str, int]()
        with self._db.reading() as session:
            for status, phase, count in session.execute(query):
                if status == JobStatus.QUEUED:
                    waiting += count
                else:
                    running[phase or ""] = running.get(phase or "", 0) + count
        return QueueCounts(waiting, running)

    def cancel(self, document_id: UUID) -> bool:
        """Stop the reading of a document, which is failed then; False if no job was active."""
        with self._db.session() as session:
            active = update(Job).where(
                Job.document_id == document_id, Job.status.in_(ACTIVE_STATUSES)
            )
            ended = active.values(
                status=JobStatus.CANCELLED, finished_at=self._db.now(session), **NO_LEASE
            )
            if not session.execute(ended.returning(Job.id)).all():
                return False
            mark_failed(session, document_id, JobCancelled.code, CANCELLED_MESSAGE)
            return True

    # -- for workers ---------------------------------------------------------------------------

    def claim(
        self,
        owner: str,
        lease_s: float,
        *,
        deadline_s: float | None = None,
        most_cost: int | None = None,
    ) -> JobRecord | None:
        """Take the next job that is due, with one conditional UPDATE.

        Args:
            owner: the worker's name, from `WorkerLiveness.new_owner`.
            lease_s: seconds until the job goes to another worker, unless a heartbeat renews it.
            deadline_s: seconds until the worker gives the job up; None if that is not known.
            most_cost: the highest cost of a job, for a worker of light jobs; None for any.
        Returns: the job, or None if no job is due.
        """
        with self._db.session() as session:
            now = self._db.now(session)
            first = next_job(is_due(now, self._fingerprint, most_cost))
            claim = (
                update(Job)
                .where(Job.id == first.with_for_update(skip_locked=True, of=Job).scalar_subquery())
                .where(Job.status == JobStatus.QUEUED)
                .values(
                    status=JobStatus.RUNNING,
                    attempt=Job.attempt + 1,
                    lease_owner=owner,
                    phase=None,
                    tokens_done=0,
                    tokens_total=0,
                    started_at=now,
                    **_lease(now, lease_s, deadline_s),
                )
            )
            row = session.scalar(claim.returning(Job))
            if row is None:
                return None
            mark_reading(session, row.document_id)
            session.execute(note_turn(row.document_id, now))
            return record(JobRecord, row)

    def check(self, job: JobRecord) -> None:
        """Return if a job still belongs to the worker that claimed it; nothing is written.

        Raises: LeaseLost, JobCancelled or DocumentDeleted, as `progress` does.
        """
        with self._db.reading() as session:
            check_claimed_job(session, job)

    def heartbeat(self, job: JobRecord, lease_s: float, deadline_s: float | None = None) -> None:
        """Renew the lease of a job.

        Args:
            lease_s: seconds from now until the lease ends.
            deadline_s: seconds from now until the job is given up; None if that is not known.
        Raises: LeaseLost, JobCancelled or DocumentDeleted, as `progress` does.
        """
        with self._db.session() as session:
            now = self._db.now(session)
            update_claimed_job(session, job, **_lease(now, lease_s, deadline_s))

    def do_others_wait(self, job: JobRecord, most_cost: int) -> bool:
        """Return whether jobs of other uploaders are due.

        Args:
            most_cost: the highest cost of a job that counts.
        """
        with self._db.reading() as session:
            due = is_due(self._db.now(session), self._fingerprint, most_cost)
            other = select(Job.id).where(due, Job.uploader != job.uploader).limit(1)
            return session.scalar(other) is not None

    def progress(self, job: JobRecord, phase: Phase, tokens_done: int, tokens_total: int) -> None:
        """Write how far a job is.

        Args:
            phase: what is being done.
            tokens_done, tokens_total: how much of the whole reading is done, in tokens.
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
            done = {"status": JobStatus.DONE, "tokens_done": Job.tokens_total}
            update_claimed_job(session, job, finished_at=now, **done, **NO_LEASE)
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

    def release(
        self,
        job: JobRecord,
        *,
        delay_s: float = 0.0,
        crashed: bool = False,
        cost: int | None = None,
    ) -> None:
        """Put a job back into the queue.

        Args:
            delay_s: seconds until it may be claimed again, at most `LONGEST_DELAY_S`.
            crashed: whether this attempt counts as a crash.
            cost: a better estimate of the work, if there is one.
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
                cost=Job.cost if cost is None else cost,
                **NO_LEASE,
            )
            mark_waiting(session, job.document_id)

    def adopt_orphans(self, fingerprints: Iterable[str]) -> None:
        """Let any worker read what waits for a model and settings that nobody runs any more.

        Args:
            fingerprints: those of all processes that live.
        """
        with self._db.session() as session:
            orphans = update(Job).where(
                Job.status == JobStatus.QUEUED, Job.fingerprint.not_in(("", *fingerprints))
            )
            session.execute(orphans.values(fingerprint=""))

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
            are_leases_true = self._clock_jumps.has_settled(now)
            return requeue_lost_jobs(
                session, now, max_attempts, dead_owners, are_leases_true=are_leases_true
            )


def _lease(now: datetime, lease_s: float, deadline_s: float | None) -> dict[str, datetime | None]:
    deadline_at = None if deadline_s is None else now + timedelta(seconds=deadline_s)
    lease_expires_at = now + timedelta(seconds=lease_s)
    return {
        "heartbeat_at": now,
        "lease_expires_at": lease_expires_at,
        "deadline_at": deadline_at,
    }
