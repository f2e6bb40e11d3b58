"""Queueing a document inside somebody's transaction, and the order in which rows are locked.

Whoever locks several rows takes a job before its document, and a document before its artifacts.
"""

from datetime import datetime
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from storage.db.tables import Document, Job

ACTIVE = ("queued", "running")
READ_BEFORE = ("ready", "rebuilding")
NOT_FOUND = "There is no such document."


def lock_document(session: Session, document_id: UUID) -> Document | None:
    """Return the row, held until the transaction ends; None if there is none."""
    return session.scalar(select(Document).where(Document.id == document_id).with_for_update())


def enqueue(session: Session, document: Document, now: datetime) -> Job:
    """Return the document's active job, or a new one; the document must be locked or new."""
    wanted = select(Job).where(Job.document_id == document.id, Job.status.in_(ACTIVE))
    active = session.scalar(wanted)
    if active is not None:
        return active
    job = Job(document_id=document.id, status="queued", available_at=now, created_at=now)
    document.status = "rebuilding" if document.status in READ_BEFORE else "queued"
    document.error_code = document.error_message = None
    session.add(job)
    session.flush()
    return job
