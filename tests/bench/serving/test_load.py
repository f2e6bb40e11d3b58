"""The load program asks for what the workloads define."""

import asyncio

import pytest

from bench.serving.load import workloads
from bench.serving.load.__main__ import Uploads, first_of_tenth, least_of_exact, of_one_asker
from bench.serving.load.client import Outcome

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


def test_mixtures_are_drawn_from_all_documents_and_every_other_from_the_longest():
    drawn = workloads.mixtures((100, 100, 20, 20), 40, most_askers=16)
    assert drawn == workloads.mixtures((100, 100, 20, 20), 40, most_askers=16)
    assert {len(one.requests) for one in drawn} >= {1, 16}
    assert max(len(one.requests) for one in drawn) == 16
    assert all(one.asked <= {0, 1} for one in drawn[1::2])
    assert frozenset().union(*(one.asked for one in drawn[::2])) == {0, 1, 2, 3}
    assert len({one.name for one in drawn}) == 40
    crowd = next(one for one in drawn if len(one.requests) == 16)
    assert crowd.most_askers_of_one >= 16 / len(crowd.asked)


def test_no_more_ask_about_one_document_than_are_in_flight():
    assert workloads.askers(1, 100, 16).most_askers_of_one == 16
    assert workloads.askers(4, 100, 16).most_askers_of_one == 4
    assert workloads.one_by_one(100).most_askers_of_one == 1


def test_the_least_of_all_runs_is_told_and_of_few_askers_of_long_documents():
    def rows(workload, balanced, most_askers=1, tokens=65_536):
        row = {"workload": workload, "text": "book", "mode": "free",
               "most_askers_of_one": most_askers, "shortest_tokens": tokens}  # fmt: skip
        return [
            {**row, "budget": "balanced", "tokens_per_s": balanced},
            {**row, "budget": "exact", "tokens_per_s": 100.0},
        ]

    crowd, short, long = rows("a", 95.0, 8), rows("b", 97.0, 7, 8192), rows("c", 110.0, 7)
    assert least_of_exact(crowd + short + long) == {
        "any": 0.95,
        "few_askers_of_long_documents": 1.1,
    }
    assert least_of_exact(crowd) == {"any": 0.95}
    assert least_of_exact(crowd[:1]) == {}


def test_a_first_question_is_told_against_the_tenth_about_the_same_document():
    def asked(document, *times_ms):
        return [
            Outcome(document, time_ms, 0, 0, timings_ms={"first_token": time_ms - 5})
            for time_ms in times_ms
        ]

    nine = (12.0,) * 8
    outcomes = asked(0, 30.0, *nine, 10.0) + asked(1, 11.0, *nine, 10.0) + asked(2, 10.0, *nine, 10)
    assert first_of_tenth(outcomes) == {
        "median": 1.1,
        "most": 3.0,
        "most_client_ms": 30.0,
        "most_engine_ms": 25.0,
    }
    assert first_of_tenth(outcomes[:-1]) is None


def test_each_document_of_two_rounds_is_asked_again_after_all_others():
    workload = workloads.two_rounds((300, 200, 100))
    assert [request.document for request in workload.requests] == [0, 1, 2, 0, 1, 2]
    assert not workload.warm_up
    assert len(workloads.ten_each(2, 100).requests) == 20


def test_a_text_is_uploaded_once_until_all_are_forgotten():
    class Client:
        num_uploads = 0

        async def upload(self, name, text):
            self.num_uploads += 1
            return f"{name}-{self.num_uploads}", {"text": text}

    client, uploads = Client(), Uploads()

    def upload(name, text):
        return asyncio.run(uploads.of(client, name, text))

    first = upload("a", "one text")
    assert upload("b", "another")[0] == "b-2"
    assert upload("c", "one text") == first
    uploads.forget()
    assert upload("d", "one text")[0] == "d-3"
