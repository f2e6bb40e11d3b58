"""Two results are compared question by question, and only if they were asked the same ones."""

from typing import Any

import pytest

from training.comparison import answers_of, paired_difference
from training.data.facts import Question
from training.scoring import row_of, score

PLACES = [("single", 4096), ("list", 16_384)]


def result(wrong: set[int], questions: int = 10) -> dict[str, Any]:
    """A result of two rows; the numbers say which questions of each were answered wrong."""
    scores = [
        score(Question(f"Which is number {n}?", f"n{n}", "single"), "" if n in wrong else f"n{n}")
        for n in range(questions)
    ]
    row = row_of(scores, 1)
    return {"cells": {"single": {"4096": row}, "list": {"16384": row}}}


def test_rows_are_taken_together() -> None:
    found = answers_of(result({1, 2}), PLACES)
    assert found is not None
    assert (len(found.right), found.share) == (20, 0.8)
    low, high = found.interval
    assert 0.58 < low < 0.8 < high < 0.92
    assert found.loaded == (1.0,) * 20
    assert found.f1_interval[0] < 0.8 < found.f1_interval[1]


def test_methods_are_compared_on_the_same_questions() -> None:
    one, other = answers_of(result({1}), PLACES), answers_of(result({1, 2, 3}), PLACES)
    assert one is not None
    assert other is not None
    found = paired_difference(one, other)
    assert found is not None
    assert (found.right, found.f1) == (pytest.approx(0.2), pytest.approx(0.2))
    for low, high in (found.right_interval, found.f1_interval):
        assert -0.02 < low < 0.2 < high < 0.45


def test_other_questions_and_rows_without_questions_are_not_compared() -> None:
    one, other = answers_of(result(set()), PLACES), answers_of(result(set(), 9), PLACES)
    assert one is not None
    assert other is not None
    assert paired_difference(one, other) is None
    assert answers_of(result(set()), [("single", 65_536)]) is None
    old = result(set())
    del old["cells"]["list"]["16384"]["by_question"]["asked"]
    assert answers_of(old, PLACES) is None
