"""The budget controller: decoding keeps to its budget whatever the curve promised."""

import math
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean

import pytest

from engine.attend.budget import SWING, BudgetController, ReadMeter
from engine.attend.clusters import FullClusterAttention
from engine.attend.question import open_question
from engine.document.budget import BudgetCurve, BudgetCurves, Thresholds
from engine.document.cache import DocumentCache
from engine.model.attention import forward
from engine.model.loader import LoadedModel
from tests.models import FAMILIES, loaded, prose, read

BUDGET = 0.4


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return loaded(FAMILIES["llama"])


@pytest.fixture(scope="module")
def document(model: LoadedModel) -> DocumentCache:
    return read(model, prose(3000))


def decode(model: LoadedModel, document: DocumentCache, num_passes: int) -> ReadMeter:
    """A question, and an answer of so many tokens."""
    state = open_question(document, BUDGET)
    forward(model.model, model.prompt.encode_question("Who?"), state.position, state)
    for token in model.prompt.encode_answer("x" * num_passes).split(1):
        forward(model.model, token, state.position, state)
    return state.meter


def biased(document: DocumentCache, bias: float) -> DocumentCache:
    """The document with a decode curve that promises `bias` times what it loads."""
    curve = document.curves.decode
    wrong = BudgetCurve(tuple(share * bias for share in curve.shares), curve.thresholds)
    return replace(document, curves=BudgetCurves(document.curves.prefill, wrong))


@pytest.mark.parametrize("bias", [0.7, 1.0, 1.5])
def test_the_mean_over_passes_is_the_budget(
    model: LoadedModel, document: DocumentCache, bias: float
) -> None:
    meter = decode(model, biased(document, bias), 12)
    assert meter.share(1) == pytest.approx(BUDGET, rel=0.1)


def test_a_wrong_curve_shows_in_the_first_pass_alone(
    model: LoadedModel, document: DocumentCache
) -> None:
    meter = decode(model, biased(document, 0.6), 12)
    assert meter.share(1, 2) > 1.2 * BUDGET
    later = [meter.share(index, index + 1) for index in range(3, 13)]
    assert fmean(later) < 1.1 * BUDGET


def test_no_pass_goes_without_half_the_budget(model: LoadedModel, document: DocumentCache) -> None:
    meter = decode(model, biased(document, 0.5), 12)
    assert min(meter.share(index, index + 1) for index in range(1, 13)) > 0.3 * BUDGET


SHARES = tuple(2.0**power for power in range(-8, 1))
# Its thresholds say which share was asked for: level 2 is the share's logarithm.
EXACT_CURVE = BudgetCurve(SHARES, tuple(Thresholds(0.0, math.log(share)) for share in SHARES))


def loads(loaded_of: Callable[[int, float], float], budget: float, num_passes: int) -> list[float]:
    """The shares that passes load, where pass i loads `loaded_of(i, the share asked for)`."""
    full, found = 10**9, []
    meter = ReadMeter()
    controller = BudgetController(EXACT_CURVE, budget, lambda _: FullClusterAttention(), meter)
    meter.add_pass(full, full)  # the question's prefill, which does not count
    for index in range(num_passes):
        thresholds = controller.next_thresholds()
        asked = 1.0 if thresholds.reads_all else math.exp(thresholds.level2)
        found.append(loaded_of(index, asked))
        meter.add_pass(round(found[-1] * full), full)
    return found


@pytest.mark.parametrize(("first", "last"), [(0, 5), (20, 25)])
def test_what_was_read_too_much_is_saved_later(first: int, last: int) -> None:
    def loaded(index: int, asked: float) -> float:
        return asked * (2.5 if first <= index < last else 1.0)

    assert fmean(loads(loaded, 0.1, 40)) == pytest.approx(0.1, rel=0.02)


@pytest.mark.parametrize("bias", [0.25, 4.0])
def test_a_curve_that_is_wrong_by_more_than_a_pass_may_save_is_corrected(bias: float) -> None:
    def loaded(_: int, asked: float) -> float:
        return asked * bias

    assert bias > SWING or bias < 1 / SWING
    assert fmean(loads(loaded, 0.1, 40)) == pytest.approx(0.1, rel=0.1)


def test_a_pass_saves_and_spends_within_a_factor_of_the_budget() -> None:
    """The factor is `SWING`; the correction of the curve's bias so far comes on top."""

    def dear(index: int, asked: float) -> float:
        return asked * (6.0 if index == 20 else 1.0)

    def cheap(index: int, asked: float) -> float:
        return asked * (0.1 if 20 <= index < 25 else 1.0)

    budget = 0.02
    assert min(loads(dear, budget, 40)) > 0.75 * budget / SWING
    assert 0.9 * budget * SWING < max(loads(cheap, budget, 40)) < 1.5 * budget * SWING
