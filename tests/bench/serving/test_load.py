"""The load program asks for what the workloads define."""

import pytest

from bench.serving.load import workloads
from bench.serving.load.__main__ import of_one_asker

BOOK = "The quick brown fox jumps over the lazy dog. " * 2000


def test_lmcache_asks_about_all_documents_in_turn_and_then_again():
    workload = workloads.lmcache(3, 10, 5, 2, 4)
    assert [request.document for request in workload.requests] == [0, 1, 2, 0, 1, 2]
    assert workload.in_flight == 4
    assert workloads.literal_text(2, 3) == "2 hi hi hi"


def test_pegaflow_sends_at_its_rate():
    times = [request.at_s for request in workloads.pegaflow(8, rate=4.0).requests]
    assert times == [0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75]


def test_each_document_is_asked_two_different_questions_of_four():
    requests = workloads.four_questions(5, 100).requests
    for document in range(5):
        asked = {request.question for request in requests if request.document == document}
        assert len(asked) == 2
        assert asked < set(workloads.FOUR_QUESTIONS)


def test_zipf_asks_most_about_the_first_document():
    requests = workloads.zipf(4, 100, 2000).requests
    counts = [sum(request.document == index for request in requests) for index in range(4)]
    assert counts[0] / counts[1] == pytest.approx(2, rel=0.25)
    assert counts == sorted(counts, reverse=True)


@pytest.mark.parametrize("index", [0, 1, 5])
def test_a_books_text_has_as_many_tokens_as_were_asked_for_even_past_its_end(index):
    spans = [(start, start + 4) for start in range(0, 40_000, 5)]
    text = workloads.book_text(BOOK[:40_000], spans, index, 7999)
    assert len(text) == pytest.approx(7999 * 5, abs=10)
    with pytest.raises(ValueError, match="too few"):
        workloads.book_text(BOOK[:40_000], spans, 1, 20_000)


def test_a_crowd_is_told_against_one_asker_of_the_same_budget():
    def row(workload, budget, later_ms, documents=1, mode="free"):
        later = {"p50": later_ms} if later_ms else None
        return {"workload": workload, "budget": budget, "mode": mode, "documents": documents,
                "ms_per_later_token": later}  # fmt: skip

    rows = [
        row("one by one, 8 x 128", "exact", 8.0),
        row("4 askers, 1 x 128", "exact", 10.0),
        row("4 askers, 1 x 128", "exact", 90.0, mode="quote"),
        row("4 askers, 1 x 128", "balanced", 7.0),
        row("16 askers, 4 x 64", "exact", 20.0, documents=4),
        row("pegaflow", "exact", None),
    ]
    assert of_one_asker(rows) == [
        {"workload": "4 askers, 1 x 128", "budget": "exact", "ms_per_later_token": 1.25}
    ]
