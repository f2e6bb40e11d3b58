"""From a budget to thresholds."""

import pytest

from engine.document.budget import NO_CURVES, BudgetCurve, BudgetCurves, Thresholds

CURVE = BudgetCurve(
    shares=(0.1, 0.2, 0.4, 0.8),
    thresholds=(
        Thresholds(-2.0, -3.0),
        Thresholds(-3.0, -5.0),
        Thresholds(-4.0, -6.0),
        Thresholds(-5.0, -9.0),
    ),
)


@pytest.mark.parametrize("index", range(4))
def test_a_measured_share_gets_its_own_thresholds(index: int) -> None:
    found = CURVE.at(CURVE.shares[index])
    assert found.level1 == pytest.approx(CURVE.thresholds[index].level1)
    assert found.level2 == pytest.approx(CURVE.thresholds[index].level2)


def test_between_two_points_thresholds_fall_with_the_budget() -> None:
    found = [CURVE.at(0.1 * 1.05**step) for step in range(40)]
    levels = [(one.level1, one.level2) for one in found]
    assert len(levels) == 40
    assert levels == sorted(levels, reverse=True)
    halfway = CURVE.at((0.2 * 0.4) ** 0.5)
    assert halfway.level2 == pytest.approx(-5.5)


def test_past_the_last_point_everything_is_read() -> None:
    assert CURVE.at(0.81).reads_all
    assert NO_CURVES.prefill.at(0.5).reads_all


def test_below_the_floor_the_floor_is_kept() -> None:
    assert CURVE.at(0.01) == CURVE.thresholds[0]
    assert CURVE.floor == 0.1


def test_the_floor_of_both_phases_is_the_higher_one() -> None:
    other = BudgetCurve((0.15,), (Thresholds(0.0, 0.0),))
    assert BudgetCurves(CURVE, other).floor == 0.15
    assert BudgetCurves(other, CURVE).floor == 0.15
    assert NO_CURVES.floor == 1.0
