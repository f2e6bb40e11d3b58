"""Queries of the dashboard: the queue, the documents, and what their questions cost and saved."""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import Select, and_, func, select

from common.status import DocumentStatus
from storage.answers import OK, Answers, AnswerSummary, summary_columns
from storage.db.database import Database
from storage.db.tables import Answer, Artifact, Document, Job
from storage.jobs.transitions import ACTIVE_STATUSES

Row = TypeVar("Row")
IN_WORK_STATUSES = tuple(status for status in DocumentStatus if status.is_in_work)


@dataclass(frozen=True)
class Totals:
    """Figures of the whole installation.

    Attributes:
        queued, reading, ready, failed, rebuilding: numbers of documents with each status.
        stored_bytes: bytes of all artifacts on disk.
        kv_bytes: bytes of their keys and values that full attention reads for each token.
    """

    queued: int
    reading: int
    ready: int
    failed: int
    rebuilding: int
    stored_bytes: int
    kv_bytes: int
    answers: AnswerSummary


@dataclass(frozen=True)
class QueueRow:
    """A document that waits or is being read, and its job."""

    document_id: UUID
    filename: str
    status: DocumentStatus
    phase: str | None
    tokens_done: int
    tokens_total: int
    attempt: int
    crashes: int
    created_at: datetime
    started_at: datetime | None


@dataclass(frozen=True)
class DocumentRow:
    """A document, its cache and its questions; the means are None if there were no questions."""

    document_id: UUID
    filename: str
    status: DocumentStatus
    error_code: str | None
    error_message: str | None
    num_tokens: int | None
    num_bytes: int
    cache_bytes: int | None
    kv_bytes: int | None
    hits: int
    misses: int
    budget_requested: float | None
    budget_loaded: float | None
    first_token_ms: float | None
    saved_ms: float
    reading_ms: float | None
    created_at: datetime


class Dashboard:
    """Read-only queries over the documents of all tenants."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def totals(self) -> Totals:
        """Return the figures of the whole installation."""
        by_status = select(Document.status, func.count()).group_by(Document.status)
        sizes = select(
            func.coalesce(func.sum(Artifact.num_bytes), 0),
            func.coalesce(func.sum(Artifact.kv_bytes), 0),
        )
        with self._db.reading() as session:
            counts = {status.value: 0 for status in DocumentStatus}
            counts.update((status.value, count) for status, count in session.execute(by_status))
            stored_bytes, kv_bytes = session.execute(sizes).one()
        return Totals(
            **counts,
            stored_bytes=int(stored_bytes),
            kv_bytes=int(kv_bytes),
            answers=Answers(self._db).summary(),
        )

    def queue(self, limit: int) -> tuple[QueueRow, ...]:
        """Return at most `limit` documents that wait or are being read, the oldest jobs first."""
        active_job = and_(Job.document_id == Document.id, Job.status.in_(ACTIVE_STATUSES))
        query = (
            select(
                Document.id.label("document_id"),
                Document.filename,
                Document.status,
                Job.phase,
                Job.tokens_done,
                Job.tokens_total,
                Job.attempt,
                Job.crashes,
                Job.created_at,
                Job.started_at,
            )
            .join(Job, active_job)
            .where(Document.status.in_(IN_WORK_STATUSES))
            .order_by(Job.created_at, Job.id)
            .limit(limit)
        )
        return self._rows(QueueRow, query)

    def documents(self, limit: int) -> tuple[DocumentRow, ...]:
        """Return the `limit` newest documents with the figures of their questions."""
        answers = (
            select(Answer.document_id, *summary_columns())
            .where(Answer.status == OK)
            .group_by(Answer.document_id)
            .subquery()
        )
        query = (
            select(
                Document.id.label("document_id"),
                Document.filename,
                Document.status,
                Document.error_code,
                Document.error_message,
                Document.num_tokens,
                Document.num_bytes,
                Artifact.num_bytes.label("cache_bytes"),
                Artifact.kv_bytes,
                func.coalesce(answers.c.hits, 0).label("hits"),
                func.coalesce(answers.c.misses, 0).label("misses"),
                answers.c.budget_requested,
                answers.c.budget_loaded,
                answers.c.first_token_ms,
                func.coalesce(answers.c.saved_ms, 0.0).label("saved_ms"),
                Document.reading_ms,
                Document.created_at,
            )
            .outerjoin(Artifact, Artifact.document_id == Document.id)
            .outerjoin(answers, answers.c.document_id == Document.id)
            .order_by(Document.created_at.desc(), Document.id.desc())
            .limit(limit)
        )
        return self._rows(DocumentRow, query)

    def _rows(self, kind: type[Row], query: Select[*tuple[Any, ...]]) -> tuple[Row, ...]:
        names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
        with self._db.reading() as session:
            rows = session.execute(query).all()
        return tuple(kind(**{name: row._mapping[name] for name in names}) for row in rows)
