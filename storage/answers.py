"""Statistics of answered questions: cache hits, budgets and times, but never their text."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Select, case, cast, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.sql.elements import Label

from storage.db.database import Database
from storage.db.tables import Answer

OK = "ok"


@dataclass(frozen=True)
class AnswerSummary:
    """Totals and means over answered questions; the means are None if there are none.

    Attributes:
        hits, misses: answers whose document was in memory already, or had to be loaded.
        budget_requested, budget_loaded: mean shares of the document's cache.
        first_token_ms: mean milliseconds from a question's arrival to its first token.
        saved_ms: milliseconds saved in all against reading the document again for every question.
    """

    num_answers: int
    hits: int
    misses: int
    budget_requested: float | None
    budget_loaded: float | None
    first_token_ms: float | None
    saved_ms: float


class Answers:
    """The statistics of all tenants."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def record(
        self,
        *,
        tenant_id: UUID,
        document_id: UUID,
        cache_hit: bool,
        budget_requested: float,
        budget_loaded: float,
        first_token_ms: float,
        total_ms: float,
        num_tokens: int,
        saved_ms: float,
        status: str = OK,
    ) -> None:
        """Record one question.

        Args:
            cache_hit: whether the document was in memory already.
            budget_requested, budget_loaded: shares of the document's cache.
            first_token_ms, total_ms: milliseconds from the question's arrival to the first token
                and to the end of the answer.
            num_tokens: number of the answer's tokens.
            saved_ms: milliseconds saved against reading the document again.
            status: "ok", or the code of the error that ended the answer.
        """
        row = {
            "tenant_id": tenant_id,
            "status": status,
            "cache_hit": cache_hit,
            "budget_requested": budget_requested,
            "budget_loaded": budget_loaded,
            "first_token_ms": first_token_ms,
            "total_ms": total_ms,
            "num_tokens": num_tokens,
            "saved_ms": saved_ms,
        }
        try:
            self._insert(document_id=document_id, **row)
        except IntegrityError:  # the document was deleted meanwhile; the question was answered
            self._insert(document_id=None, **row)

    def summary(self, tenant_id: UUID | None = None) -> AnswerSummary:
        """Return the summary of a tenant's answers, or of all answers."""
        summary: Select[Any] = select(*summary_columns()).where(Answer.status == OK)
        if tenant_id is not None:
            summary = summary.where(Answer.tenant_id == tenant_id)
        with self._db.reading() as session:
            return AnswerSummary(**session.execute(summary).one()._mapping)

    def _insert(self, **row: Any) -> None:
        with self._db.session() as session:
            session.add(Answer(created_at=self._db.now(session), **row))


def summary_columns() -> tuple[Label[Any], ...]:
    """Return the SQL columns of an AnswerSummary, for a query over any selection of answers."""
    hits = func.coalesce(func.sum(case((Answer.cache_hit, 1), else_=0)), 0)
    return (
        func.count(Answer.id).label("num_answers"),
        cast(hits, BigInteger).label("hits"),
        cast(func.count(Answer.id) - hits, BigInteger).label("misses"),
        func.avg(Answer.budget_requested).label("budget_requested"),
        func.avg(Answer.budget_loaded).label("budget_loaded"),
        func.avg(Answer.first_token_ms).label("first_token_ms"),
        func.coalesce(func.sum(Answer.saved_ms), 0.0).label("saved_ms"),
    )
