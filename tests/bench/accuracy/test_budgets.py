"""What rows of answers say about budgets."""

from dataclasses import replace

import pytest

from bench.accuracy.budgets import Row, dual_summary, main, summary
from bench.plots import draw_budgets
from engine.config import LookupConfig
from engine.model.head_plan import HeadPlan, write_plan

ROW = Row("all", LookupConfig(), 1.0, (0, 0), right=True, loaded=1.0, prefill=1.0, decode=1.0)


def rows(budget, num_right, loaded, heads="all"):
    """Ten answers at a budget."""
    asked = replace(ROW, heads=heads, budget=budget, loaded=loaded, prefill=loaded, decode=loaded)
    return [replace(asked, right=index < num_right, asked=(0, index)) for index in range(10)]


FULL = [
    *rows(1.0, 8, 1.0),
    *rows(0.5, 8, 0.55),
    *rows(0.145, 6, 0.15),
    *rows(0.08, 2, 0.08),
]


@pytest.fixture
def dual(tmp_path):
    heads = tuple((head < 3,) for head in range(10))
    write_plan(HeadPlan("duo", heads), tmp_path / "plan.json")
    plan = str(tmp_path / "plan.json")
    given = [*rows(0.02, 4, 0.03, plan), *rows(0.05, 7, 0.05, plan), *rows(1.0, 8, 0.3, plan)]
    return dual_summary(given, FULL[:10])


def test_accuracy_counts_at_the_most_that_may_be_loaded():
    found = summary(FULL)
    assert found["exact_match_full"] == 0.8
    assert found["relative_exact_match"] == pytest.approx(0.75)
    assert found["relative_exact_match_loaded"] == 0.15
    assert found["largest_deviation_decode"] == pytest.approx(0.1)


def test_the_same_questions_are_compared_in_pairs_whatever_order_they_were_answered_in(dual):
    point = next(one for one in dual["plans"][0]["points"] if one["requested"] == 0.05)
    assert point["paired_difference"] == pytest.approx(-0.1)
    low, high = point["paired_interval_95"]
    assert -0.4 < low < -0.1 < high < 0.2
    assert point["by_question"]["right"] == [1] * 7 + [0] * 3
    reversed_rows = summary(FULL[::-1])["points"]
    assert reversed_rows == summary(FULL)["points"]


def test_dual_caches_are_held_against_full_attention_in_all_heads(dual):
    assert dual["relative_exact_match"] == pytest.approx(7 / 8)
    assert dual["least_loaded_that_keeps"] == 0.3
    assert [(plan["method"], plan["ratio"]) for plan in dual["plans"]] == [("duo", 0.3)]


def test_the_plot_has_a_curve_with_and_one_without_dual_caches(dual):
    result = {**summary(FULL), "questions": 10, "document_tokens": 16_384}
    labels = [line.get_label() for line in draw_budgets(result, dual).axes[0].lines]
    assert labels == ["lookup", "lookup and 30% retrieval heads (duo)", "full attention"]


def test_a_baseline_without_anything_to_compare_is_refused(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["budgets", "--data", "books", "--baseline-only"])
    with pytest.raises(SystemExit):
        main()
    assert "alone it writes nothing" in capsys.readouterr().err
