"""What becomes of the jobs of workers that died, inside the caller's transaction."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import ColumnElement, or_, select, true
from sqlalchemy.orm import Session

from common.status import JobStatus
from storage.db.tables import Artifact, Job
from storage.jobs.order import LONGEST_DELAY_S
from storage.jobs.transitions import NO_LEASE, mark_failed, mark_ready, mark_waiting

CRASHED = "worker_crashed"
CRASHED_MESSAGE = (
    "The worker died {crashes} times while it read this document, so it was set aside. The "
    "document may need more memory than there is; upload it again for another try."
)
MAX_LOST_JOBS = 100


def requeue_lost_jobs(
    session: Session,
    now: datetime,
    max_attempts: int,
    dead_owners: Sequence[str],
    *,
    are_leases_true: bool,
) -> Sequence[UUID]:
    """Queue the jobs of dead workers again, or end them.

    Args:
        now: the present moment by the database's clock.
        max_attempts: number of crashes after which a job is failed.
        dead_owners: workers that are known to be dead.
        are_leases_true: whether the clock can be trusted, so that the leases say who else is dead.
    Returns: the ids of the jobs that are queued again.
    """
    is_lost: ColumnElement[bool] = Job.lease_owner.in_(dead_owners)
    if are_leases_true:
        is_lost = or_(is_lost, _has_expired(now))
    lost = select(Job).where(Job.status == JobStatus.RUNNING, is_lost)
    lost = lost.limit(MAX_LOST_JOBS).with_for_update(skip_locked=True)
    jobs = list(session.scalars(lost))
    return tuple(job.id for job in jobs if _end_or_requeue(session, job, now, max_attempts))


def _has_expired(now: datetime) -> ColumnElement[bool]:
    too_far = now + timedelta(seconds=LONGEST_DELAY_S)
    return or_(Job.lease_expires_at <= now, Job.heartbeat_at > too_far)


def _end_or_requeue(session: Session, job: Job, now: datetime, max_attempts: int) -> bool:
    """End the job of a dead worker, or queue it again; True if it is queued again."""
    for name, value in NO_LEASE.items():
        setattr(job, name, value)
    job.crashes += 1
    published = select(Artifact.id).where(
        Artifact.document_id == job.document_id,
        Artifact.fingerprint == job.fingerprint if job.fingerprint else true(),
        # Not an artifact from before the clock was set back, which seems to lie in the future.
        Artifact.created_at.between(job.created_at, now),
    )
    if session.scalar(published) is not None:
        job.status, job.finished_at, job.tokens_done = JobStatus.DONE, now, job.tokens_total
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
