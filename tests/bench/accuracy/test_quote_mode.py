"""What the benches of quote mode and of the budget `auto` count."""

from dataclasses import replace

import pytest

from bench.accuracy.auto_budget import AutoRow
from bench.accuracy.auto_budget import report as report_auto
from bench.accuracy.quote_mode import QuoteRow, count_wrong_spans, report
from engine.decode.answer import Quote
from tests.app.engines import answer_of

TEXT = "Mira sold  the maps to Jonas.\nThe gate closes at 18:40."


def quoted(text: str, answer_start: int) -> Quote:
    start = TEXT.index(text)
    shown = len(" ".join(text.split()))
    return Quote(text, None, start, start + len(text), answer_start, answer_start + shown)


RIGHT = replace(
    answer_of("Mira sold the maps, 18:40"),
    quotes=(quoted("Mira sold  the maps", 0), quoted("18:40", 20)),
)


def test_an_answer_of_quotes_and_joints_is_right() -> None:
    assert count_wrong_spans(TEXT, RIGHT) == 0
    refusal = replace(answer_of("The document does not say."), quotes=(), refused=True)
    assert count_wrong_spans(TEXT, refusal) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        replace(RIGHT, text="Mira sold the maps - 18:40"),
        replace(RIGHT, text="Mira sold the maps, 18:40 or so"),
        replace(RIGHT, quotes=(quoted("Mira sold  the maps", 0), quoted("Jonas", 20))),
        replace(RIGHT, quotes=(replace(quoted("Mira sold  the maps", 0), start_char=1),)),
        replace(RIGHT, quotes=()),
    ],
)
def test_what_does_not_stand_at_its_span_is_counted(wrong: object) -> None:
    assert count_wrong_spans(TEXT, wrong) > 0  # type: ignore[arg-type]


def test_modes_are_compared_question_by_question() -> None:
    rows = [
        QuoteRow("planted", (True, True), (1.0, 1.0), 0, 0),
        QuoteRow("planted", (True, False), (1.0, 0.5), 1, 1),
        QuoteRow("natural", (False, False), (0.2, 0.4), 0, 0),
    ]
    found = report(rows)
    assert (found["questions"], found["answers_not_in_the_document"]) == (3, 1)
    planted = found["planted"]
    assert (planted["exact_match_free"], planted["exact_match_quote"]) == (1.0, 0.5)
    assert planted["difference"] == -0.5


def test_a_tolerance_is_kept_where_no_more_is_lost() -> None:
    kept = AutoRow(chosen=0.15, predicted=0.01, loaded=0.5, right=0.9, lost=0.02)
    rows = [kept, replace(kept, chosen=1.0), replace(kept, lost=0.04)]
    found = report_auto(rows, tolerance=0.02)
    assert found["kept"] == pytest.approx(2 / 3)
    assert found["below_exact"] == pytest.approx(2 / 3)
    assert found["kept_below_exact"] == pytest.approx(1 / 3)
    assert report_auto(rows, tolerance=0.05)["kept"] == 1.0
