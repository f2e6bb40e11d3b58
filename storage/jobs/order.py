"""Which job is claimed next: time is shared between uploaders, and then age decides.

The uploader whose turn it is is the one none of whose jobs was begun, or else the one whose last
job was begun the longest ago. So somebody with one document waits for one job of everybody else at
the most, however many jobs others have, and no job waits for ever.
"""

from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import ColumnElement, ScalarSelect, Select, and_, func, or_, select, true
from sqlalchemy.orm import aliased

from common.status import JobStatus
from storage.db.tables import Job

LONGEST_DELAY_S = 60.0


def is_due(now: datetime, fingerprint: str, most_cost: int | None) -> ColumnElement[bool]:
    """Return the condition that a job may be claimed.

    Args:
        now: the present moment by the database's clock. A delay that lies too far in the future
            counts as over, because then the clock was set back.
        fingerprint: names model and settings of the worker; empty for a worker that takes any job.
        most_cost: the highest cost of a job; None for any.
    """
    too_far = now + timedelta(seconds=2 * LONGEST_DELAY_S)
    return and_(
        Job.status == JobStatus.QUEUED,
        or_(Job.available_at <= now, Job.available_at > too_far),
        Job.fingerprint.in_(("", fingerprint)) if fingerprint else true(),
        true() if most_cost is None else Job.cost <= most_cost,
    )


def next_job(due: ColumnElement[bool]) -> Select[UUID]:
    """Return the query for the id of the next job of those for which `due` holds."""
    return (
        select(Job.id)
        .where(due, Job.uploader == _next_uploader(due))
        .order_by(Job.available_at, Job.id)
        .limit(1)
    )


def _next_uploader(due: ColumnElement[bool]) -> ScalarSelect[str]:
    waiting = select(Job.uploader).where(due).distinct().subquery()
    begun = aliased(Job)
    last = (
        select(func.max(begun.started_at))
        .where(begun.uploader == waiting.c.uploader)
        .scalar_subquery()
    )
    in_turn = select(waiting.c.uploader).order_by(last.is_not(None), last, waiting.c.uploader)
    return in_turn.limit(1).scalar_subquery()
