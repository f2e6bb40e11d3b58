"""What rows of answers say about budgets, texts of every kind, and levels of lookup in pairs."""

from itertools import islice
from pathlib import Path

import pytest

from bench.accuracy.loaded import LoadedRow, ask_at, describe_loaded, share_of_all, without_end
from bench.accuracy.lookup_levels import NATURAL, PLANTED, LevelAnswer, summarise
from bench.accuracy.text_kinds import PIECES, draw_kind
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.model.loader import LoadedModel
from tests.models import FAMILIES, HALF, loaded, prose, read


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return loaded(FAMILIES["llama"], plan=HALF)


@pytest.fixture(scope="module")
def document(model: LoadedModel) -> DocumentCache:
    return read(model, prose(2000))


def test_the_worst_mean_counts_of_budgets_between_the_floor_and_all(
    document: DocumentCache,
) -> None:
    low, high = document.curves.floor, share_of_all(document)
    assert 0 < low < high < 1  # half of the heads stream
    budget = (low + high) / 2
    rows = [
        LoadedRow(budget, 9, prefill=budget, decode=1.3 * budget, seconds=0.1),
        LoadedRow(budget, 9, prefill=1.2 * budget, decode=None, seconds=0.1),
        LoadedRow(low / 2, 9, prefill=low, decode=low, seconds=0.1),
        LoadedRow(1.0, 9, prefill=high, decode=high, seconds=0.1),
    ]
    found = describe_loaded(rows, document)
    assert found["budgets_below_the_floor"] == [low / 2]
    assert found["budgets_that_pay_for_all"] == [1.0]
    assert found["largest_deviation_prefill"] == pytest.approx(0.1)
    assert found["largest_deviation"] == pytest.approx(0.3)


def test_an_answer_without_end_has_as_many_tokens_as_it_may(
    model: LoadedModel, document: DocumentCache
) -> None:
    with Engine(without_end(model)) as engine:
        row = ask_at(engine, document, "Who keeps the lamps?", 1.0, steps=3)
    assert row.prefill == row.decode == pytest.approx(share_of_all(document), abs=1e-4)


@pytest.mark.parametrize("kind", PIECES)
def test_every_kind_goes_on_without_end_and_is_drawn_again_alike(kind: str) -> None:
    pieces = list(islice(draw_kind(kind), 3))
    assert pieces == list(islice(draw_kind(kind), 3))
    assert all(len(piece) > 10 for piece in pieces)
    assert ("\n" in "".join(pieces)) == (kind in ("CSV", "source code"))


def test_levels_are_compared_on_the_same_questions() -> None:
    def answers(levels: int, budget: float, right: str) -> list[LevelAnswer]:
        return [
            LevelAnswer(group, 0, number, levels, budget, one == "1", float(one), budget)
            for group in (PLANTED, NATURAL)
            for number, one in enumerate(right)
        ]

    rows = [*answers(0, 1.0, "1111"), *answers(1, 0.1, "1100"), *answers(2, 0.1, "1110")[::-1]]
    planted, natural, both = summarise(rows)
    assert (planted["questions"], natural["questions"], both["questions"]) == (
        PLANTED, NATURAL, "all",
    )  # fmt: skip
    assert both["n"] == 8
    assert both["exact_match_full"] == 1.0
    assert both["two_minus_one"]["exact_match"] == pytest.approx(0.25)
    assert both["two_minus_one"]["two_alone_right"] == 2
    assert both["two_minus_one"]["one_alone_right"] == 0


def test_a_small_model_with_windows_keeps_its_budgets(tmp_path: Path) -> None:
    from bench.accuracy import window_budgets

    options = ["--small", "--tokens", "900", "--budgets", "0.9", "--out", str(tmp_path)]
    window_budgets.main(options)
    assert (tmp_path / "window_budgets_small.json").is_file()
