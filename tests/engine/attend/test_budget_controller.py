"""The governor: decoding keeps to its budget whatever the curve promised."""

from dataclasses import replace
from statistics import fmean

import pytest

from engine.attend.budget import ReadMeter
from engine.attend.question import open_question
from engine.document.budget import BudgetCurve, BudgetCurves
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
