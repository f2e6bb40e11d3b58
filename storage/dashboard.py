"""What the dashboard asks: the queue, the documents and what their questions cost and saved."""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import Select, and_, func, select

from storage.answers import OK, Answers, AnswerSummary, figures
from storage.db.database import Database
from storage.db.tables import DOCUMENT_STATUSES, Answer, Artifact, Document, Job
from storage.jobs.queueing import ACTIVE

Row = TypeVar("Row")
IN_WORK = ("queued", "reading", "rebuilding")


@dataclass(frozen=True)
class Totals:
    """Documents by status, bytes of all artifacts, and all answers."""

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
    """A document that is not ready yet, and its job."""

    document_id: UUID
    filename: str
    status: str
    phase: str | None
    tokens_done: int
    tokens_total: int
    attempt: int
    crashes: int
    created_at: datetime
    started_at: datetime | None


@dataclass(frozen=True)
class DocumentRow:
    """A document, its cache, and its questions; means are None before the first one."""

    document_id: UUID
    filename: str
    status: str
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
    """Read-only views over all tenants."""

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
            counts = dict.fromkeys(DOCUMENT_STATUSES, 0)
            counts.update((status, count) for status, count in session.execute(by_status))
            stored_bytes, kv_bytes = session.execute(sizes).one()
        return Totals(
            **counts,
            stored_bytes=int(stored_bytes),
            kv_bytes=int(kv_bytes),
            answers=Answers(self._db).summary(),
        )

    def queue(self, limit: int) -> tuple[QueueRow, ...]:
        """Return the documents that are not ready yet, those that wait longest first."""
        job = and_(Job.document_id == Document.id, Job.status.in_(ACTIVE))
        wanted = (
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
            .join(Job, job)
            .where(Document.status.in_(IN_WORK))
            .order_by(Job.created_at, Job.id)
            .limit(limit)
        )
        return self._rows(QueueRow, wanted)

    def documents(self, limit: int) -> tuple[DocumentRow, ...]:
        """Return the newest documents with the figures of their questions."""
        answers = (
            select(Answer.document_id, *figures())
            .where(Answer.status == OK)
            .group_by(Answer.document_id)
            .subquery()
        )
        wanted = (
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
        return self._rows(DocumentRow, wanted)

    def _rows(self, kind: type[Row], wanted: Select[*tuple[Any, ...]]) -> tuple[Row, ...]:
        names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
        with self._db.reading() as session:
            found = session.execute(wanted).all()
        return tuple(kind(**{name: row._mapping[name] for name in names}) for row in found)
