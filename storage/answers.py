"""Statistics of answered questions: cache hits, budgets and times, but never their text."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import BigInteger, Executable, Select, bindparam, cast, delete, func, select
from sqlalchemy.sql.elements import Label

from storage.db.database import Database
from storage.db.document_lock import STILL_THERE
from storage.db.tables import Answer, AnswerTotals, DocumentAnswers, TenantAnswers

OK = "ok"
PRUNED_AT_ONCE = 5000
SUMMED = ("budget_requested", "budget_loaded", "first_token_ms", "saved_ms")


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
    """The statistics of all tenants.

    Each answer has a row, which is removed after a while; sums over all answers are kept for each
    tenant and each document, so that asking for them takes the same time however many there were.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        columns = Answer.__table__.c
        self._insert: Executable = (
            db.insert(Answer.__table__)
            .values({name: bindparam(name) for name in columns.keys()})  # noqa: SIM118
            .returning(columns.id)
        )
        self._add_to_tenant = _adding(db, TenantAnswers, "tenant_id")
        self._add_to_document = _adding(db, DocumentAnswers, "document_id")

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
        kind: str | None = None,
        queue_ms: float | None = None,
        decode_ms: float | None = None,
        kv_bytes_read: int | None = None,
        kv_bytes_full: int | None = None,
        document_tokens: int | None = None,
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
            kind: of the request; figures of one kind can be compared.
            queue_ms, decode_ms: milliseconds of waiting for a slot, and of decoding.
            kv_bytes_read, kv_bytes_full: bytes of keys and values that were read, and that full
                attention would have read.
            document_tokens: the document's length.
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
            "kind": kind,
            "queue_ms": queue_ms,
            "decode_ms": decode_ms,
            "kv_bytes_read": kv_bytes_read,
            "kv_bytes_full": kv_bytes_full,
            "document_tokens": document_tokens,
        }
        sums = {name: row[name] for name in SUMMED} | {"num_answers": 1, "hits": int(cache_hit)}
        with self._db.transaction() as transaction:
            # One that was deleted meanwhile is not named; the question was answered all the same.
            is_there = bool(transaction.rows(STILL_THERE, document_id=document_id))
            transaction.rows(
                self._insert,
                id=uuid4(),
                document_id=document_id if is_there else None,
                created_at=transaction.now(),
                **row,
            )
            if status == OK:
                transaction.rows(self._add_to_tenant, tenant_id=tenant_id, **sums)
            if status == OK and is_there:
                transaction.rows(self._add_to_document, document_id=document_id, **sums)

    def summary(self, tenant_id: UUID | None = None) -> AnswerSummary:
        """Return the summary of a tenant's answers, or of all answers."""
        summary: Select[Any] = select(*summary_columns(TenantAnswers))
        if tenant_id is not None:
            summary = summary.where(TenantAnswers.tenant_id == tenant_id)
        with self._db.reading() as session:
            return AnswerSummary(**session.execute(summary).one()._mapping)

    def prune(self, days: int) -> int:
        """Remove the rows of answers that are older; the sums stay as they are.

        Args:
            days: how long rows are kept.
        Returns: how many rows were removed, at most `PRUNED_AT_ONCE`.
        """
        with self._db.session() as session:
            oldest = self._db.now(session) - timedelta(days=days)
            old = select(Answer.id).where(Answer.created_at < oldest).limit(PRUNED_AT_ONCE)
            removed = delete(Answer).where(Answer.id.in_(old)).returning(Answer.id)
            return len(session.execute(removed).all())


def _adding(db: Database, table: type[TenantAnswers | DocumentAnswers], key: str) -> Executable:
    """Return the statement that adds one answer to the sums of a tenant or a document."""
    columns, names = table.__table__.c, (*SUMMED, "num_answers", "hits")
    insert = db.insert(table.__table__).values({name: bindparam(name) for name in (key, *names)})
    sums = {name: columns[name] + insert.excluded[name] for name in names}
    added: Executable = insert.on_conflict_do_update(index_elements=[key], set_=sums)
    return added.returning(columns[key])  # type: ignore[attr-defined, no-any-return]


def summary_columns(table: type[AnswerTotals]) -> tuple[Label[Any], ...]:
    """Return the SQL columns of an AnswerSummary, for a query over any selection of sums."""
    count = cast(func.coalesce(func.sum(table.num_answers), 0), BigInteger)
    hits = cast(func.coalesce(func.sum(table.hits), 0), BigInteger)
    means = (
        (func.sum(getattr(table, name)) / func.nullif(count, 0)).label(name)
        for name in SUMMED
        if name != "saved_ms"
    )
    return (
        count.label("num_answers"),
        hits.label("hits"),
        (count - hits).label("misses"),
        *means,
        func.coalesce(func.sum(table.saved_ms), 0.0).label("saved_ms"),
    )
