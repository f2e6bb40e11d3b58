"""Queries of the dashboard: the queue, the documents, and what their questions cost and saved."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import ColumnElement, Select, and_, case, func, select
from sqlalchemy.orm import Session, aliased

from common.status import DocumentStatus
from storage.answers import Answers, AnswerSummary
from storage.db.database import Database
from storage.db.tables import (
    Artifact,
    Document,
    DocumentAnswers,
    Job,
    Tenant,
    TenantAnswers,
    TenantLimit,
    Usage,
)
from storage.jobs.transitions import ACTIVE_STATUSES
from storage.quotas.resources import Resource

Row = TypeVar("Row")
STORED_STATUSES = tuple(status for status in DocumentStatus if status.is_stored)
IN_WORK_STATUSES = tuple(status for status in STORED_STATUSES if status.is_in_work)


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
    priority: int


@dataclass(frozen=True)
class DocumentRow:
    """A document, its cache and its questions; the means are None if there were no questions."""

    document_id: UUID
    tenant_id: UUID
    tenant: str
    is_pinned: bool
    filename: str
    status: DocumentStatus
    error_code: str | None
    error_message: str | None
    num_tokens: int | None
    num_bytes: int
    stored_bytes: int | None
    kv_bytes: int | None
    hits: int
    misses: int
    budget_requested: float | None
    budget_loaded: float | None
    first_token_ms: float | None
    saved_ms: float
    reading_ms: float | None
    created_at: datetime


@dataclass(frozen=True)
class FailureRow:
    """A document that could not be read."""

    document_id: UUID
    filename: str
    tenant: str
    error_code: str | None
    error_message: str | None
    failed_at: datetime | None


@dataclass(frozen=True)
class TenantRow:
    """A tenant: what it has, what it has used today, and what it may; a limit is None for any.

    Attributes:
        num_bytes: of originals and caches.
        tokens: of today's questions and answers.
    """

    tenant_id: UUID
    name: str
    is_suspended: bool
    documents: int
    documents_limit: int | None
    num_bytes: int
    num_bytes_limit: int | None
    in_work: int
    in_work_limit: int | None
    tokens: int
    tokens_limit: int | None
    requests_limit: int | None
    num_answers: int


class Dashboard:
    """Read-only queries over the documents of all tenants.

    Args:
        fingerprint: names a model and settings: documents are shown with their artifacts of these,
            as `Documents` shows them. Empty for any.
    """

    def __init__(self, db: Database, fingerprint: str = "") -> None:
        self._db = db
        self._fingerprint = fingerprint

    def totals(self) -> Totals:
        """Return the figures of the whole installation."""
        shown = _status()
        by_status = (
            select(shown, func.count())
            .select_from(Document)
            .outerjoin(Artifact, self._is_own())
            .group_by(shown)
        )
        sizes = select(
            func.coalesce(func.sum(Artifact.num_bytes), 0),
            func.coalesce(func.sum(Artifact.kv_bytes), 0),
        )
        with self._db.reading() as session:
            counts = {status.value: 0 for status in STORED_STATUSES}
            counts.update((status.value, count) for status, count in session.execute(by_status))
            stored_bytes, kv_bytes = session.execute(sizes).one()
        return Totals(
            **counts,
            stored_bytes=int(stored_bytes),
            kv_bytes=int(kv_bytes),
            answers=Answers(self._db).summary(),
        )

    def queue(self, limit: int) -> tuple[QueueRow, ...]:
        """Return at most `limit` documents that wait or are being read.

        Those that are being read come first, then the highest priority, then the oldest.
        """
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
                Job.priority,
            )
            .join(Job, active_job)
            .where(Document.status.in_(IN_WORK_STATUSES))
            .order_by(Job.started_at.is_(None), Job.priority.desc(), Job.created_at, Job.id)
            .limit(limit)
        )
        return self._rows(QueueRow, query)

    def documents(
        self, limit: int, name_part: str = "", document_id: UUID | None = None
    ) -> tuple[DocumentRow, ...]:
        """Return the `limit` newest documents with the figures of their questions.

        Args:
            name_part: a text that their names contain, in capitals or not.
            document_id: of the only one that is wanted; None for all.
        """
        asked = DocumentAnswers
        query = (
            select(
                Document.id.label("document_id"),
                Document.tenant_id,
                Tenant.name.label("tenant"),
                Document.is_pinned,
                Document.filename,
                _status().label("status"),
                case((Artifact.id.is_(None), Document.error_code)).label("error_code"),
                case((Artifact.id.is_(None), Document.error_message)).label("error_message"),
                func.coalesce(Artifact.num_tokens, Document.num_tokens).label("num_tokens"),
                Document.num_bytes,
                Artifact.num_bytes.label("stored_bytes"),
                Artifact.kv_bytes,
                func.coalesce(asked.hits, 0).label("hits"),
                func.coalesce(asked.num_answers - asked.hits, 0).label("misses"),
                (asked.budget_requested / asked.num_answers).label("budget_requested"),
                (asked.budget_loaded / asked.num_answers).label("budget_loaded"),
                (asked.first_token_ms / asked.num_answers).label("first_token_ms"),
                func.coalesce(asked.saved_ms, 0.0).label("saved_ms"),
                Document.reading_ms,
                Document.created_at,
            )
            .select_from(Document)
            .join(Tenant, Tenant.id == Document.tenant_id)
            .outerjoin(Artifact, self._is_own())
            .outerjoin(asked, asked.document_id == Document.id)
            .order_by(Document.created_at.desc(), Document.id.desc())
            .limit(limit)
        )
        if name_part:
            query = query.where(Document.filename.icontains(name_part, autoescape=True))
        if document_id is not None:
            query = query.where(Document.id == document_id)
        return self._rows(DocumentRow, query)

    def failures(self, limit: int) -> tuple[FailureRow, ...]:
        """Return the `limit` documents whose reading failed last."""
        failed_at = select(func.max(Job.finished_at)).where(Job.document_id == Document.id)
        failed = failed_at.scalar_subquery()
        query = (
            select(
                Document.id.label("document_id"),
                Document.filename,
                Tenant.name.label("tenant"),
                Document.error_code,
                Document.error_message,
                failed.label("failed_at"),
            )
            .join(Tenant, Tenant.id == Document.tenant_id)
            .outerjoin(Artifact, self._is_own())
            .where(Document.status == DocumentStatus.FAILED, Artifact.id.is_(None))
            .order_by(Document.created_at.desc(), Document.id.desc())
            .limit(limit)
        )
        return self._rows(FailureRow, query)

    def names(self, document_ids: Iterable[UUID]) -> Mapping[UUID, str]:
        """Return the names of documents by their ids."""
        with self._db.reading() as session:
            named = select(Document.id, Document.filename)
            rows = session.execute(named.where(Document.id.in_(tuple(document_ids))))
            return {row.id: row.filename for row in rows}

    def asked_documents(self) -> int:
        """Return how many documents were ever asked about, each of which had to be loaded once."""
        with self._db.reading() as session:
            return session.scalar(select(func.count()).select_from(DocumentAnswers)) or 0

    def tenants(self, limit: int) -> tuple[TenantRow, ...]:
        """Return at most `limit` tenants, those with the most documents first."""
        counted = (
            select(
                Document.tenant_id,
                func.count().label("documents"),
                func.sum(Document.num_bytes).label("num_bytes"),
            )
            .group_by(Document.tenant_id)
            .subquery()
        )
        documents = func.coalesce(counted.c.documents, 0)
        first = (
            select(Tenant.id, Tenant.name, Tenant.suspended_at, documents, counted.c.num_bytes)
            .outerjoin(counted, counted.c.tenant_id == Tenant.id)
            .order_by(documents.desc(), Tenant.name)
            .limit(limit)
        )
        with self._db.reading() as session:
            rows = session.execute(first).all()
            shown = [row.id for row in rows]
            caches = self._by_tenant(session, func.sum(Artifact.num_bytes), Artifact, shown)
            is_active = Job.status.in_(ACTIVE_STATUSES)
            in_work = self._by_tenant(session, func.count(), Job, shown, is_active)
            limits = select(TenantLimit).where(TenantLimit.tenant_id.in_(shown))
            allowed = {(row.tenant_id, row.resource): row.amount for row in session.scalars(limits)}
            today = _first_second_of_today(self._db.now(session))
            tokens = select(Usage.owner_id, Usage.used).where(
                Usage.owner_id.in_(shown),
                Usage.resource == Resource.TOKENS,
                Usage.window_start == today,
            )
            used = dict(session.execute(tokens).all())
            asked = select(TenantAnswers.tenant_id, TenantAnswers.num_answers)
            answers = dict(session.execute(asked.where(TenantAnswers.tenant_id.in_(shown))).all())
        return tuple(
            TenantRow(
                tenant_id=tenant_id,
                name=name,
                is_suspended=suspended_at is not None,
                documents=num_documents,
                documents_limit=allowed.get((tenant_id, Resource.DOCUMENTS)),
                num_bytes=int(num_bytes or 0) + caches.get(tenant_id, 0),
                num_bytes_limit=allowed.get((tenant_id, Resource.BYTES)),
                in_work=in_work.get(tenant_id, 0),
                in_work_limit=allowed.get((tenant_id, Resource.QUEUED_JOBS)),
                tokens=used.get(tenant_id, 0),
                tokens_limit=allowed.get((tenant_id, Resource.TOKENS)),
                requests_limit=allowed.get((tenant_id, Resource.REQUESTS)),
                num_answers=answers.get(tenant_id, 0),
            )
            for tenant_id, name, suspended_at, num_documents, num_bytes in rows
        )

    def _by_tenant(
        self, session: Session, figure: Any, table: Any, shown: list[UUID], *conditions: Any
    ) -> dict[UUID, int]:
        """Return a figure over the rows of a table that hang on documents, for each tenant."""
        query = (
            select(Document.tenant_id, figure)
            .select_from(table)
            .join(Document, Document.id == table.document_id)
            .where(Document.tenant_id.in_(shown), *conditions)
            .group_by(Document.tenant_id)
        )
        return {tenant_id: int(amount) for tenant_id, amount in session.execute(query)}

    def _is_own(self) -> ColumnElement[bool]:
        """The condition that an artifact is its document's current one."""
        of_document = Artifact.document_id == Document.id
        if self._fingerprint:
            return and_(of_document, Artifact.fingerprint == self._fingerprint)
        any_artifact = aliased(Artifact)
        newest = select(func.max(any_artifact.created_at)).where(
            any_artifact.document_id == Document.id
        )
        return and_(of_document, Artifact.created_at == newest.scalar_subquery())

    def _rows(self, kind: type[Row], query: Select[*tuple[Any, ...]]) -> tuple[Row, ...]:
        names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
        with self._db.reading() as session:
            rows = session.execute(query).all()
        return tuple(kind(**{name: row._mapping[name] for name in names}) for row in rows)


def _first_second_of_today(now: datetime) -> int:
    window_s = Resource.TOKENS.window_s or 1
    return int(now.timestamp() // window_s) * window_s


def _status() -> ColumnElement[DocumentStatus]:
    """The status of a document whose current artifact is joined, or none if it has none."""
    is_ready = Artifact.id.is_not(None)
    return case((is_ready, DocumentStatus.READY), else_=Document.status)
