"""Writes that only a job's present owner can make, inside somebody's transaction."""

from datetime import datetime
from types import MappingProxyType
from typing import Any
from uuid import UUID

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from common.errors import Cancelled, DocumentDeleted, LeaseLost, LecternError
from storage.db.records import JobRecord
from storage.db.tables import Document, Job

CANCELLED_MESSAGE = "Reading this document was cancelled; upload it again to have it read."
IDLE = MappingProxyType({"lease_owner": None, "lease_expires_at": None, "heartbeat_at": None})


def fenced(session: Session, job: JobRecord, **values: Any) -> None:
    """Write to a job if it is still the caller's.

    Raises: LeaseLost, Cancelled, DocumentDeleted.
    """
    mine = update(Job).where(
        Job.id == job.id, Job.attempt == job.attempt, Job.status == "running"
    )  # fmt: skip
    if session.execute(mine.values(**values).returning(Job.id)).first() is None:
        raise _lost(session, job)


def mark_ready(session: Session, document_id: UUID, now: datetime, **values: Any) -> None:
    """Let a document be asked."""
    ready = {"status": "ready", "ready_at": now, "error_code": None, "error_message": None}
    session.execute(update(Document).where(Document.id == document_id).values(**ready, **values))


def _lost(session: Session, job: JobRecord) -> LecternError:
    status = session.scalar(select(Job.status).where(Job.id == job.id))
    if status is None:
        return DocumentDeleted("The document was deleted while it was being read.")
    if status == "cancelled":
        return Cancelled(CANCELLED_MESSAGE)
    return LeaseLost("Another worker has taken this job over.")
