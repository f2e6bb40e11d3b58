"""Counts and percentiles of answers, on both databases."""

from datetime import timedelta

import pytest
from sqlalchemy import update

from storage.db.tables import Answer


@pytest.fixture
def record(storage, tenant):
    """Record an answer; fields replace the usual ones."""

    def record(**fields):
        usual = {
            "tenant_id": tenant, "document_id": None, "cache_hit": True, "budget_requested": 0.15,
            "budget_loaded": 0.1, "first_token_ms": 50.0, "total_ms": 90.0, "num_tokens": 4,
            "saved_ms": 0.0, "kind": "balanced", "queue_ms": 0.4, "decode_ms": 40.0,
            "kv_bytes_read": 100, "kv_bytes_full": 1000, "document_tokens": 50,
        }  # fmt: skip
        storage.answers.record(**usual | fields)

    return record


def test_requests_of_unlike_kinds_share_no_mean(storage, record):
    for loaded in (0.1, 0.2):
        record(budget_loaded=loaded)
    record(kind="exact", budget_loaded=1.0, budget_requested=1.0, kv_bytes_read=1000)
    record(kind=None, kv_bytes_read=None, kv_bytes_full=None, document_tokens=None)
    balanced, *others = storage.answer_history.kinds(24)
    assert (balanced.kind, balanced.num_answers, balanced.hits) == ("balanced", 2, 2)
    assert balanced.budget_loaded == pytest.approx(0.15)
    assert (balanced.kv_bytes_read, balanced.kv_bytes_full) == (200, 2000)
    assert balanced.tokens_saved == 50 * 4 * 0.9 + 50 * 4 * 0.8
    assert {row.kind: row.tokens_saved for row in others} == {"exact": 0, "unknown": 0}


def test_percentiles_are_right_to_two_digits(storage, record):
    for first_ms in [*range(100, 200), 7.25, 12_345.0]:
        record(first_token_ms=float(first_ms))
    found = storage.answer_history.percentiles("first_token", 24, 86_400)
    (p50,), (p95,) = (
        [value for value in one if value is not None] for one in (found.p50, found.p95)
    )
    assert p50 == pytest.approx(150, rel=0.1)
    assert p95 == pytest.approx(195, rel=0.1)
    waiting = storage.answer_history.percentiles("waiting", 24, 86_400)
    assert [value for value in waiting.p50 if value] == [pytest.approx(0.4)]


def test_spans_without_answers_are_there_and_old_answers_are_not(storage, record):
    record(cache_hit=False)
    with storage.db.session() as session:
        old = storage.db.now(session) - timedelta(hours=30)
        session.execute(update(Answer).values(created_at=old))
    record()
    throughput = storage.answer_history.throughput(24, 600)
    assert (sum(throughput.answers), sum(throughput.hits), sum(throughput.tokens)) == (1, 1, 4)
    assert len(throughput.times) == 145
    assert {b - a for a, b in zip(throughput.times, throughput.times[1:], strict=False)} == {600}


def test_the_cost_of_reading_is_fitted_to_the_times_of_a_tenants_answers(storage, tenant, record):
    other = storage.tenants.create("other")
    for number in range(8):
        read = (number % 4 + 1) * 2**20
        noise = 1 + 0.01 * (number % 3)
        times = {"decode_ms": 10 * (4 + 2 * read / 2**20) * noise, "num_tokens": 10}
        record(kv_bytes_read=10 * read, **times)
        record(tenant_id=other, kv_bytes_read=10 * read, decode_ms=40.0 + number, num_tokens=10)
    cost = storage.answer_history.reading_cost(tenant)
    assert cost.ms_per_gib == pytest.approx(2 * 1024, rel=0.05)
    assert cost.num_answers == 8
    assert storage.answer_history.reading_cost(other) is None  # its times go with nothing


def test_the_cost_of_reading_is_not_guessed_from_few_or_like_answers(storage, tenant, record):
    for number in range(7):
        record(kv_bytes_read=1000 * (number + 1), decode_ms=10.0 * (number + 1))
    assert storage.answer_history.reading_cost(tenant) is None
    storage.answers.prune(0)
    for _ in range(8):
        record()
    record(num_tokens=1, kv_bytes_read=10**6)
    assert storage.answer_history.reading_cost(tenant) is None
