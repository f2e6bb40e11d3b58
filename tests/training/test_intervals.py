"""Intervals are the published ones, and pairs are narrower than two shares apart."""

from math import sqrt

import pytest

from training.intervals import normal, paired_normal, paired_wilson, wilson


def answers(both: int, first: int, second: int, neither: int) -> tuple[list[bool], list[bool]]:
    """Two methods' answers: right by both so often, by the first, the second and neither alone."""
    one = [True] * (both + first) + [False] * (second + neither)
    other = [True] * both + [False] * first + [True] * second + [False] * neither
    return one, other


def test_wilson_is_the_published_interval() -> None:
    low, high = wilson(81, 263)  # Newcombe 1998, table I: 0.2553 to 0.3662
    assert (low, high) == (pytest.approx(0.2553, abs=1e-4), pytest.approx(0.3662, abs=1e-4))
    assert wilson(0, 0) == (0.0, 1.0)


def test_a_paired_difference_is_the_published_interval() -> None:
    low, high = paired_wilson(*answers(36, 12, 2, 0))  # Newcombe 1998: 0.0569 to 0.3404
    assert (low, high) == (pytest.approx(0.0569, abs=1e-4), pytest.approx(0.3404, abs=1e-4))


def test_methods_that_agree_question_by_question_are_compared_more_closely() -> None:
    agreeing, other = answers(270, 5, 5, 20), answers(252, 23, 23, 2)
    (low, high), (least, most) = paired_wilson(*agreeing), paired_wilson(*other)
    assert low < 0 < high
    assert high - low < (most - least) / 1.5


def test_the_order_of_two_methods_turns_the_interval_round() -> None:
    one, other = answers(30, 9, 1, 10)
    low, high = paired_wilson(one, other)
    assert paired_wilson(other, one) == (pytest.approx(-high), pytest.approx(-low))


def test_a_mean_difference_is_normal() -> None:
    low, high = paired_normal([1.0, 0.5, 0.5, 0.0], [0.0, 0.5, 0.0, 0.5])
    spread = 1.96 * sqrt(5 / 12) / 2
    assert (low, high) == (pytest.approx(0.25 - spread), pytest.approx(0.25 + spread))
    assert normal([0.9, 1.0, 1.0])[1] == 1.0


@pytest.mark.parametrize("pair", [([], []), ([True], [True, False])])
def test_answers_to_different_questions_are_no_pairs(pair: tuple[list[bool], list[bool]]) -> None:
    for interval in (paired_wilson, paired_normal):
        with pytest.raises(ValueError, match="paired interval"):
            interval(*pair)
