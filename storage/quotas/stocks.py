"""How much a tenant or a key has of what is stored: counted from the rows, so that it is exact."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import Session

from storage.db.tables import Artifact, Document, Job
from storage.jobs.transitions import ACTIVE_STATUSES
from storage.quotas.resources import Resource


def count_stocks(
    session: Session, resources: tuple[Resource, ...], tenant_id: UUID, uploader: str | None = None
) -> Mapping[Resource, int]:
    """Return how much of each resource there is.

    Args:
        uploader: public part of a key, to count only what that key has uploaded; None for the
            whole tenant.
    """
    owned = Document.tenant_id == tenant_id
    if uploader is not None:
        owned &= Document.uploader == uploader
    return {
        resource: sum(int(session.scalar(query) or 0) for query in _queries(resource, owned))
        for resource in resources
    }


def _queries(resource: Resource, owned: ColumnElement[bool]) -> tuple[Select[Any], ...]:
    """Return the queries whose results sum up to the stock of a resource."""
    match resource:
        case Resource.BYTES:
            caches = select(func.sum(Artifact.num_bytes)).join(Document).where(owned)
            return select(func.sum(Document.num_bytes)).where(owned), caches
        case Resource.DOCUMENTS:
            return (select(func.count()).select_from(Document).where(owned),)
        case Resource.QUEUED_JOBS:
            jobs = select(func.count()).select_from(Job).join(Document)
            return (jobs.where(owned, Job.status.in_(ACTIVE_STATUSES)),)
    raise ValueError(f"{resource} is no stock")
