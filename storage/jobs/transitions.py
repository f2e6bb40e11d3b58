"""Changes of a job's and a document's status, made inside the caller's transaction.

To avoid deadlocks, a transaction that locks several rows locks a job before its document, and a
document before its artifacts.
"""

from datetime import datetime
from types import MappingProxyType
from typing import Any
from uuid import UUID

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from common.errors import DocumentDeleted, JobCancelled, LeaseLost, LecternError
from common.status import DocumentStatus, JobStatus
from storage.db.records import JobRecord
from storage.db.tables import Document, Job

ACTIVE_STATUSES = tuple(status for status in JobStatus if status.is_active)
# What a write for a job raises if the job no longer belongs to the writer.
JOB_LOST_ERRORS = (LeaseLost, JobCancelled, DocumentDeleted)
NO_LEASE = MappingProxyType(
    {"lease_owner": None, "lease_expires_at": None, "heartbeat_at": None, "deadline_at": None}
)
CANCELLED_MESSAGE = "Reading this document was cancelled; retry it to have it read."
DELETED_MESSAGE = "The document was deleted while it was being read."


def lock_document(session: Session, document_id: UUID) -> Document | None:
    """Return a document's row, locked until the transaction ends; None if there is no such row."""
    return session.scalar(select(Document).where(Document.id == document_id).with_for_update())


def enqueue(
    session: Session,
    document: Document,
    now: datetime,
    fingerprint: str = "",
    priority: int = 0,
) -> Job:
    """Return the active job of a document, or make a new one.

    Args:
        document: a row that this transaction has locked or made.
        now: the present moment by the database's clock.
        fingerprint: names the model and settings to read with; a job for others is another job.
            Empty for those of whatever worker claims the job.
        priority: of the job among those of its tenant, beside the document's own; an active job
            gets at least this.
    """
    priority += document.priority
    same = (Job.document_id == document.id, Job.status.in_(ACTIVE_STATUSES))
    active = session.scalars(select(Job).where(*same)).all()
    for job in active:
        if not fingerprint or job.fingerprint in ("", fingerprint):
            job.priority = max(job.priority, priority)
            return job
    job = Job(
        document_id=document.id,
        status=JobStatus.QUEUED,
        fingerprint=fingerprint,
        uploader=document.uploader,
        cost=document.num_bytes,
        priority=priority,
        available_at=now,
        created_at=now,
    )
    was_ready = document.status in (DocumentStatus.READY, DocumentStatus.REBUILDING)
    document.status = DocumentStatus.REBUILDING if was_ready else DocumentStatus.QUEUED
    document.error_code = document.error_message = None
    session.add(job)
    session.flush()
    return job


def update_claimed_job(session: Session, job: JobRecord, **values: Any) -> None:
    """Write to a job, provided that it still belongs to the worker that claimed it.

    Args:
        job: the job as it was claimed; its attempt number is the fencing token.
        values: the columns to write.
    Raises: LeaseLost, JobCancelled, DocumentDeleted: nothing was written then.
    """
    claimed = update(Job).where(
        Job.id == job.id, Job.attempt == job.attempt, Job.status == JobStatus.RUNNING
    )
    if session.execute(claimed.values(**values).returning(Job.id)).first() is None:
        raise _explain_loss(session, job)


def check_claimed_job(session: Session, job: JobRecord) -> None:
    """Return if a job still belongs to the worker that claimed it.

    Raises: LeaseLost, JobCancelled, DocumentDeleted.
    """
    claimed = select(Job.id).where(
        Job.id == job.id, Job.attempt == job.attempt, Job.status == JobStatus.RUNNING
    )
    if session.scalar(claimed) is None:
        raise _explain_loss(session, job)


def mark_ready(session: Session, document_id: UUID, now: datetime, **values: Any) -> None:
    """Make a document ready for questions, and write further columns of its row.

    Args:
        now: the present moment by the database's clock.
    """
    ready = {
        "status": DocumentStatus.READY,
        "ready_at": now,
        "error_code": None,
        "error_message": None,
    }
    session.execute(update(Document).where(Document.id == document_id).values(**ready, **values))


def mark_failed(session: Session, document_id: UUID, code: str, message: str) -> None:
    """Make a document failed, with the code and the message of the reason."""
    failed = {"status": DocumentStatus.FAILED, "error_code": code, "error_message": message}
    session.execute(update(Document).where(Document.id == document_id).values(**failed))


def mark_reading(session: Session, document_id: UUID) -> None:
    """Show that a queued document is being read; one that is being rebuilt keeps its status."""
    _replace_status(session, document_id, DocumentStatus.QUEUED, DocumentStatus.READING)


def mark_waiting(session: Session, document_id: UUID) -> None:
    """Show that a document waits again; one that is being rebuilt keeps its status."""
    _replace_status(session, document_id, DocumentStatus.READING, DocumentStatus.QUEUED)


def _replace_status(
    session: Session, document_id: UUID, old: DocumentStatus, new: DocumentStatus
) -> None:
    document = update(Document).where(Document.id == document_id, Document.status == old)
    session.execute(document.values(status=new))


def _explain_loss(session: Session, job: JobRecord) -> LecternError:
    """Return the error that says why a job no longer belongs to its worker."""
    status = session.scalar(select(Job.status).where(Job.id == job.id))
    if status is None:
        return DocumentDeleted(DELETED_MESSAGE)
    if status is JobStatus.CANCELLED:
        return JobCancelled(CANCELLED_MESSAGE)
    return LeaseLost("Another worker has taken over this job.")
