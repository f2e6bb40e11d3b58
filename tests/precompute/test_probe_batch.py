"""Probes that are asked together count what each would count alone, asked as people ask."""

from dataclasses import replace

import pytest

from engine.attend.clusters import AttendedClusters, FullClusterAttention, Lookup
from engine.attend.question import QuestionState
from engine.config import LookupConfig
from engine.document.budget import BudgetCurve
from engine.document.cache import DocumentCache, LayerCache
from engine.model.attention import forward
from engine.model.loader import LoadedModel
from precompute.calibrate import BATCH, calibrate
from precompute.probe_batch import ask_probes
from precompute.probes import Probe, ProbeMaker
from precompute.score_histogram import ScoreHistogram
from tests.models import FAMILIES, SETTINGS, loaded, prose, read


class Counting(FullClusterAttention):
    """Attends to everything, and counts the scores of each lookup as one selection."""

    def __init__(self, document: DocumentCache) -> None:
        self.histogram = ScoreHistogram(document.lookup, document, apart=False)

    def attend(self, lookup: Lookup, layer: LayerCache) -> AttendedClusters:
        """See `FullClusterAttention.attend`."""
        self.histogram.count(lookup, layer)
        return super().attend(lookup, layer)


def ask_one_by_one(
    model: LoadedModel, document: DocumentCache, probes: list[Probe]
) -> tuple[ScoreHistogram, ScoreHistogram]:
    """Ask each probe alone, its answer token by token, as questions are answered."""
    prefill, decode = Counting(document), Counting(document)
    for probe in probes:
        state = QuestionState(document, prefill, decode)
        for ids in (probe.question_ids, *probe.answer_ids.split(1)):
            forward(model.model, ids, state.position, state)
    return prefill.histogram, decode.histogram


def differ_by(found: ScoreHistogram, expected: ScoreHistogram) -> float:
    """The most that two histograms differ in the share that a threshold loads."""
    curve = expected.curve()
    return max(
        abs(found.share_at(thresholds) - expected.share_at(thresholds))
        for thresholds in curve.thresholds
    )


@pytest.fixture(scope="module", params=["llama", "gemma2", "llama-gqa4"])
def model(request: pytest.FixtureRequest) -> LoadedModel:
    return loaded(FAMILIES[request.param])


@pytest.fixture(scope="module")
def document(model: LoadedModel) -> DocumentCache:
    return read(model, prose(1200), replace(SETTINGS, lookup=LookupConfig(levels=1)))


@pytest.fixture(scope="module")
def probes(model: LoadedModel, document: DocumentCache) -> list[Probe]:
    found = ProbeMaker(document, model.prompt, 1000, seed=3).make(6)
    assert len({len(probe.question_ids) for probe in found}) > 1
    assert max(len(probe.answer_ids) for probe in found) > 1
    return found


def test_together_they_count_what_they_count_alone(
    model: LoadedModel, document: DocumentCache, probes: list[Probe]
) -> None:
    expected_prefill, expected_decode = ask_one_by_one(model, document, probes)
    prefill = ScoreHistogram(document.lookup, document, apart=False)
    decode = ScoreHistogram(document.lookup, document, apart=True)
    ask_probes(model, document, probes, prefill, decode)
    assert differ_by(prefill, expected_prefill) < 0.002
    assert differ_by(decode, expected_decode) < 0.002
    assert differ_by(prefill, expected_decode) > 0.02  # so that a mistake would show


def test_curves_promise_what_questions_asked_one_by_one_load(
    model: LoadedModel, document: DocumentCache
) -> None:
    settings = replace(SETTINGS, lookup=document.lookup, num_probes=8)
    room = model.spec.context_length - document.num_tokens
    asked = ProbeMaker(document, model.prompt, room, settings.seed).make(8)
    assert len(asked) <= BATCH["cpu"]
    curves = calibrate(model, document, settings, lambda _: None).curves
    for curve, expected in zip(
        (curves.prefill, curves.decode), ask_one_by_one(model, document, asked), strict=True
    ):
        assert_loads(curve, expected)


def assert_loads(curve: BudgetCurve, expected: ScoreHistogram) -> None:
    found = [min(1.0, expected.share_at(thresholds)) for thresholds in curve.thresholds]
    assert found == pytest.approx(curve.shares, abs=0.005)
