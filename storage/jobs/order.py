"""Which job is claimed next: tenants take turns, then priority decides, then uploaders take turns.

The tenant whose turn it is is the one none of whose jobs was begun, or else the one whose last job
was begun the longest ago. So a tenant with one document waits for one job of every other tenant at
the most, however many jobs others have. Of a tenant's jobs those with the highest priority come
first; of these its uploaders take turns in the same way, and then age decides.
"""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    ScalarSelect,
    Select,
    Update,
    and_,
    func,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.orm import aliased

from common.status import JobStatus
from storage.db.tables import Document, Job, Tenant

LONGEST_DELAY_S = 60.0


def is_due(now: datetime, fingerprint: str, most_cost: int | None) -> ColumnElement[bool]:
    """Return the condition that a job may be claimed; those of suspended tenants may not.

    Args:
        now: the present moment by the database's clock. A delay that lies too far in the future
            counts as over, because then the clock was set back.
        fingerprint: names model and settings of the worker; empty for a worker that takes any job.
        most_cost: the highest cost of a job; None for any.
    """
    too_far = now + timedelta(seconds=2 * LONGEST_DELAY_S)
    suspended = select(Document.id).join(Tenant).where(Tenant.suspended_at.is_not(None))
    return and_(
        Job.status == JobStatus.QUEUED,
        Job.document_id.not_in(suspended),
        or_(Job.available_at <= now, Job.available_at > too_far),
        Job.fingerprint.in_(("", fingerprint)) if fingerprint else true(),
        true() if most_cost is None else Job.cost <= most_cost,
    )


def next_job(due: ColumnElement[bool]) -> Select[UUID]:
    """Return the query for the id of the next job of those for which `due` holds."""
    of_tenant = Document.tenant_id == _next_tenant(due)
    highest = _of_tenants(select(func.max(Job.priority))).where(due, of_tenant).scalar_subquery()
    chosen = and_(due, of_tenant, Job.priority == highest)
    return (
        _of_tenants(select(Job.id))
        .where(chosen, Job.uploader == _next_uploader(chosen))
        .order_by(Job.available_at, Job.id)
        .limit(1)
    )


def note_turn(document_id: UUID, now: datetime) -> Update:
    """Return the statement that notes that a job of a document's tenant was begun."""
    owner = select(Document.tenant_id).where(Document.id == document_id).scalar_subquery()
    return update(Tenant).where(Tenant.id == owner).values(turn_at=now)


def _of_tenants(jobs: Select[Any]) -> Select[Any]:
    """Join jobs with the documents and tenants that they belong to."""
    documents = jobs.join(Document, Document.id == Job.document_id)
    return documents.join(Tenant, Tenant.id == Document.tenant_id)


def _next_tenant(due: ColumnElement[bool]) -> ScalarSelect[UUID]:
    in_turn = _of_tenants(select(Tenant.id).select_from(Job)).where(due)
    in_turn = in_turn.order_by(Tenant.turn_at.is_not(None), Tenant.turn_at, Tenant.id)
    return in_turn.limit(1).scalar_subquery()


def _next_uploader(chosen: ColumnElement[bool]) -> ScalarSelect[str]:
    waiting = _of_tenants(select(Job.uploader)).where(chosen).distinct().subquery()
    begun = aliased(Job)
    last = (
        select(func.max(begun.started_at))
        .where(begun.uploader == waiting.c.uploader)
        .scalar_subquery()
    )
    in_turn = select(waiting.c.uploader).order_by(last.is_not(None), last, waiting.c.uploader)
    return in_turn.limit(1).scalar_subquery()
