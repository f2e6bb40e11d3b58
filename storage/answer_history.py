"""What the answers of the last hours were like: how many, of which kinds, and how long they took.

Each method is one query over the rows of answers, which are counted in SQL; percentiles come from
counts by two significant digits, so that they are right to a few per cent.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, ColumnElement, String, case, cast, extract, func, select

from storage.answers import OK
from storage.db.database import Database
from storage.db.tables import Answer

HUNDREDTHS = 100  # of a millisecond, so that short times have two digits, too
MIN_FITTED_ANSWERS, MAX_FITTED_ANSWERS = 8, 500
MIN_FITTED_TOKENS = 3  # of an answer; the time of the first one is its question's
MIN_CERTAINTY = 3.0
UNKNOWN_KIND = "unknown"  # of answers from before kinds were noted


@dataclass(frozen=True)
class KindRow:
    """Answers to requests of one kind.

    Attributes:
        budget_requested, budget_loaded: mean shares.
        kv_bytes_read, kv_bytes_full: bytes that were read, and that full attention would have read.
        tokens_saved: tokens of documents that were not attended to, over all generated tokens.
        first_token_ms, total_ms: means.
    """

    kind: str
    num_answers: int
    hits: int
    budget_requested: float
    budget_loaded: float
    kv_bytes_read: int
    kv_bytes_full: int
    tokens_saved: int
    first_token_ms: float
    total_ms: float


@dataclass(frozen=True)
class Throughput:
    """Answers in spans of time, oldest first.

    Attributes:
        times: Unix seconds at which the spans begin; spans without answers are there, too.
        answers, hits, tokens: numbers in each span.
    """

    times: tuple[int, ...]
    answers: tuple[int, ...]
    hits: tuple[int, ...]
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Percentiles:
    """Milliseconds that half and 95 % of the answers of each span took; None without answers."""

    p50: tuple[float | None, ...]
    p95: tuple[float | None, ...]


@dataclass(frozen=True)
class ReadingCost:
    """What reading keys and values costs, fitted to the times of answers.

    Attributes:
        ms_per_gib: milliseconds that each further GiB takes, whatever the tokens take beside it.
        num_answers: answers it was fitted to.
    """

    ms_per_gib: float
    num_answers: int


STAGES: dict[str, ColumnElement[Any]] = {
    "first_token": Answer.first_token_ms.expression,
    "per_token": (Answer.decode_ms / func.nullif(Answer.num_tokens, 0)),
    "waiting": Answer.queue_ms.expression,
}


class AnswerHistory:
    """Queries over the answers of all tenants."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def kinds(self, hours: float, document_id: UUID | None = None) -> tuple[KindRow, ...]:
        """Return what requests of each kind were like, those with the most answers first.

        Args:
            document_id: what they were about; None for all documents.
        """
        kind = func.coalesce(Answer.kind, UNKNOWN_KIND)
        saved = Answer.document_tokens * Answer.num_tokens * (1.0 - Answer.budget_loaded)
        number = func.count()
        query = select(
            kind,
            number,
            func.sum(case((Answer.cache_hit, 1), else_=0)),
            func.avg(Answer.budget_requested),
            func.avg(Answer.budget_loaded),
            func.coalesce(func.sum(Answer.kv_bytes_read), 0),
            func.coalesce(func.sum(Answer.kv_bytes_full), 0),
            func.coalesce(func.sum(saved), 0.0),
            func.avg(Answer.first_token_ms),
            func.avg(Answer.total_ms),
        )
        if document_id is not None:
            query = query.where(Answer.document_id == document_id)
        rows = self._rows(query.group_by(kind).order_by(number.desc()), hours)
        return tuple(
            KindRow(
                name,
                int(answers),
                int(hits),
                float(requested),
                float(loaded),
                int(read),
                int(full),
                int(tokens),
                float(first),
                float(total),
            )
            for name, answers, hits, requested, loaded, read, full, tokens, first, total in rows
        )

    def throughput(self, hours: float, span_s: int) -> Throughput:
        """Count answers in spans of `span_s` seconds."""
        span = _span(span_s)
        query = select(
            span,
            func.count(),
            func.sum(case((Answer.cache_hit, 1), else_=0)),
            func.sum(Answer.num_tokens),
        ).group_by(span)
        found = {int(at): counts for at, *counts in self._rows(query, hours)}
        spans = self._spans(hours, span_s)
        counts = [found.get(at, (0, 0, 0)) for at in spans]
        answers, hits, tokens = (tuple(int(row[index]) for row in counts) for index in range(3))
        return Throughput(tuple(at * span_s for at in spans), answers, hits, tokens)

    def percentiles(self, stage: str, hours: float, span_s: int) -> Percentiles:
        """Return how long a stage of `STAGES` took in spans of `span_s` seconds."""
        span, duration = _span(span_s), STAGES[stage]
        digits = cast(cast(duration * HUNDREDTHS, BigInteger), String)
        length, first_two = func.length(digits), func.substr(digits, 1, 2)
        query = (
            select(span, length, first_two, func.count())
            .where(duration.is_not(None))
            .group_by(span, length, first_two)
        )
        found: dict[int, list[tuple[float, int]]] = defaultdict(list)
        for at, num_digits, leading, number in self._rows(query, hours):
            value = int(leading) * 10.0 ** max(0, num_digits - 2) / HUNDREDTHS
            found[int(at)].append((value, int(number)))
        spans = self._spans(hours, span_s)
        return Percentiles(
            tuple(_percentile(sorted(found.get(at, ())), 0.5) for at in spans),
            tuple(_percentile(sorted(found.get(at, ())), 0.95) for at in spans),
        )

    def reading_cost(self, tenant_id: UUID) -> ReadingCost | None:
        """Fit a line to the latest answers of a tenant: time of a token over bytes read for it.

        Returns: None if there are too few answers, or if their times do not tell (the slope is not
            above `MIN_CERTAINTY` of its standard errors).
        """
        query = (
            select(Answer.decode_ms, Answer.kv_bytes_read, Answer.num_tokens)
            .where(
                Answer.tenant_id == tenant_id,
                Answer.status == OK,
                Answer.num_tokens >= MIN_FITTED_TOKENS,
                Answer.decode_ms > 0,
                Answer.kv_bytes_read > 0,
            )
            .order_by(Answer.created_at.desc())
            .limit(MAX_FITTED_ANSWERS)
        )
        with self._db.reading() as session:
            rows = session.execute(query).all()
        num_bytes = [(read or 0) / tokens for _, read, tokens in rows]
        return _fit(num_bytes, [(ms or 0.0) / tokens for ms, _, tokens in rows])

    def _rows(self, query: Any, hours: float) -> Sequence[Any]:
        with self._db.reading() as session:
            since = self._db.now(session) - timedelta(hours=hours)
            recent = query.where(Answer.created_at >= since, Answer.status == OK)
            rows: Sequence[Any] = session.execute(recent).all()
            return rows

    def _spans(self, hours: float, span_s: int) -> range:
        with self._db.reading() as session:
            now_s = int(self._db.now(session).timestamp())
        return range((now_s - int(3600 * hours)) // span_s, now_s // span_s + 1)


def _fit(num_bytes: list[float], times_ms: list[float]) -> ReadingCost | None:
    """Fit milliseconds to bytes, both of a token, by least squares."""
    number = len(times_ms)
    if number < MIN_FITTED_ANSWERS or len(set(num_bytes)) < 2:
        return None
    slope, intercept = statistics.linear_regression(num_bytes, times_ms)
    pairs = zip(num_bytes, times_ms, strict=True)
    error = sum((ms - intercept - slope * read) ** 2 for read, ms in pairs) / (number - 2)
    mean = statistics.fmean(num_bytes)
    spread = sum((read - mean) ** 2 for read in num_bytes)
    if slope <= 0 or slope < MIN_CERTAINTY * math.sqrt(error / spread):
        return None
    return ReadingCost(slope * 2**30, number)


def _span(span_s: int) -> ColumnElement[int]:
    return cast(extract("epoch", Answer.created_at), BigInteger) // span_s


def _percentile(values: Sequence[tuple[float, int]], share: float) -> float | None:
    """Return the value that `share` of the counted ones do not exceed; None for no values."""
    left = share * sum(number for _, number in values)
    for value, number in values:
        left -= number
        if left <= 0:
            return value
    return None
