"""Many similar lines are a few lines and a number."""

from types import SimpleNamespace

import pytest

from common.line_budget import MAX_KINDS, LineBudget


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands until it is moved."""
    now = [1000.0]
    stopped = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("common.line_budget.time", stopped)
    return now


def test_a_few_lines_of_a_kind_pass_and_the_rest_are_counted(clock: list[float]) -> None:
    budget = LineBudget(max_lines=2, span_s=10)
    assert [budget.take("a") for _ in range(5)] == [0, 0, None, None, None]
    assert budget.take("b") == 0
    clock[0] += 10
    assert budget.take("a") == 3, "the next line says how many are missing"
    assert budget.take("a") == 0


def test_what_was_left_out_can_be_asked_for(clock: list[float]) -> None:
    budget = LineBudget(max_lines=1, span_s=10)
    for kind in "aabbb":
        budget.take(kind)
    assert budget.take_counts() == {}
    assert budget.take_counts(even_now=True) == {"a": 1, "b": 2}
    budget.take("a")
    budget.take("a")
    clock[0] += 10
    assert budget.take_counts() == {"a": 1}
    assert budget.take_counts() == {}


def test_the_number_of_kinds_is_bounded() -> None:
    budget = LineBudget()
    for number in range(3 * MAX_KINDS):
        budget.take(number)
    assert len(budget._spans) <= MAX_KINDS
