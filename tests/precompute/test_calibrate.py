"""Calibrated budgets: what they promise about the questions they were measured on."""

import math
from dataclasses import replace
from itertools import pairwise
from statistics import fmean

import pytest

from common.errors import JobCancelled
from engine.attend.budget import ReadMeter
from engine.attend.question import open_question
from engine.config import LookupConfig
from engine.document.budget import BudgetCurve
from engine.document.cache import DocumentCache
from engine.kernels.shared.score_clusters import AGGREGATIONS
from engine.model.attention import forward
from engine.model.head_plan import HeadPlan
from engine.model.loader import LoadedModel
from precompute.calibrate import BATCH, calibrate
from precompute.config import PrecomputeConfig
from precompute.probes import Probe, ProbeMaker
from precompute.score_histogram import FLOOR_TOKENS
from tests.models import FAMILIES, FURTHER, HALF, SETTINGS, loaded, prose, read

TEXT = prose(2000)
LOOKUPS = [LookupConfig(levels, how) for levels in (1, 2) for how in AGGREGATIONS]


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return loaded(FAMILIES["llama"])


@pytest.fixture(scope="module", params=LOOKUPS, ids=str)
def document(request: pytest.FixtureRequest, model: LoadedModel) -> DocumentCache:
    return read(model, TEXT, replace(SETTINGS, lookup=request.param))


def curves_of(document: DocumentCache) -> tuple[BudgetCurve, BudgetCurve]:
    return document.curves.prefill, document.curves.decode


def test_curves_rise_in_share_as_thresholds_fall(document: DocumentCache) -> None:
    for curve in curves_of(document):
        assert len(curve.shares) == len(curve.thresholds) >= 10
        assert 0 < curve.shares[0] < curve.shares[-1] <= 1
        assert all(low < high for low, high in pairwise(curve.shares))
        assert all(less.level2 >= more.level2 for less, more in pairwise(curve.thresholds))
        assert all(math.isfinite(one.level1 + one.level2) for one in curve.thresholds)


def test_the_floor_is_anchors_centroids_and_a_few_tokens(document: DocumentCache) -> None:
    layer = document.layers[0]
    level = layer.level1 if document.lookup.levels == 2 else layer.level2
    few = 2 * FLOOR_TOKENS + 2 * layer.num_anchors
    least = (few + level.centroids.shape[1]) / (2 * layer.num_tokens)
    assert least - 1e-9 <= document.curves.floor < least + 0.1


def make_probes(model: LoadedModel, document: DocumentCache) -> list[Probe]:
    """The probes that the document was calibrated with."""
    room = model.spec.context_length - document.num_tokens
    return ProbeMaker(document, model.prompt, room, SETTINGS.seed).make(SETTINGS.num_probes)


def ask(model: LoadedModel, document: DocumentCache, probe: Probe, budget: float) -> ReadMeter:
    """One probe as it would be answered, token by token."""
    state = open_question(document, budget)
    for ids in (probe.question_ids, *probe.answer_ids.split(1)):
        forward(model.model, ids, state.position, state)
    return state.meter


@pytest.mark.parametrize("budget", [0.3, 0.6])
def test_probes_load_what_was_asked_for(
    model: LoadedModel, document: DocumentCache, budget: float
) -> None:
    probes = make_probes(model, document)
    meters = [ask(model, document, probe, budget) for probe in probes]
    assert fmean(meter.share(0, 1) for meter in meters) == pytest.approx(budget, rel=0.15)
    assert fmean(meter.share(1) for meter in meters) == pytest.approx(budget, rel=0.15)


def test_a_document_without_clusters_has_nothing_to_choose(model: LoadedModel) -> None:
    for document in (read(model, "Short."), read(loaded(FAMILIES["mistral-window"]), TEXT[:300])):
        assert [curve.shares for curve in curves_of(document)] == [(1.0,), (1.0,)]


@pytest.mark.parametrize("family", ["gemma2", "llama-mha", "llama-gqa4"])
def test_other_families_are_calibrated_too(family: str) -> None:
    model = loaded(FAMILIES[family])
    document = read(model, TEXT[:1000])
    probes = make_probes(model, document)
    meters = [ask(model, document, probe, 0.5) for probe in probes]
    assert fmean(meter.share() for meter in meters) == pytest.approx(0.5, rel=0.15)


def test_progress_counts_probes_and_may_stop_them(model: LoadedModel) -> None:
    told: list[int] = []
    document = read(model, TEXT[:300])
    settings: PrecomputeConfig = replace(SETTINGS, num_probes=9)
    calibrate(model, document, settings, told.append)
    assert told == [9]

    def cancel(done: int) -> None:
        told.append(done)
        raise JobCancelled("Enough.")

    with pytest.raises(JobCancelled):
        calibrate(model, document, replace(settings, num_probes=40), cancel)
    assert told[1:] == [BATCH["cpu"]]


@pytest.fixture(scope="module")
def split() -> tuple[LoadedModel, DocumentCache]:
    """Half of the heads stream."""
    model = loaded(FAMILIES["llama"], plan=HALF)
    return model, read(model, TEXT)


def test_streaming_heads_lower_the_floor(
    model: LoadedModel, split: tuple[LoadedModel, DocumentCache]
) -> None:
    floor = split[1].curves.floor
    assert floor < 0.6 * read(model, TEXT).curves.floor
    kept = (256 + 4 + 16) / 2 + (4 + 24 + 1) / 2  # tokens a head, half of them streaming
    assert kept / 2001 < floor < kept / 2001 + 0.05


@pytest.mark.parametrize("budget", [0.2, 0.4])
def test_budgets_count_all_heads_bytes(
    split: tuple[LoadedModel, DocumentCache], budget: float
) -> None:
    probes = make_probes(*split)
    meters = [ask(*split, probe, budget) for probe in probes]
    assert fmean(meter.share(0, 1) for meter in meters) == pytest.approx(budget, rel=0.15)
    assert fmean(meter.share(1) for meter in meters) == pytest.approx(budget, rel=0.15)


@pytest.mark.parametrize("budget", [0.7, 1.0])
def test_what_retrieval_heads_hold_is_all_that_a_budget_can_load(
    split: tuple[LoadedModel, DocumentCache], budget: float
) -> None:
    model, document = split
    meter = ask(model, document, make_probes(model, document)[0], budget)
    everything = (2001 + 4 + 24 + 1) / 2 / 2001
    assert meter.share() == pytest.approx(everything)


def test_a_document_that_only_streams_has_one_budget() -> None:
    none = HeadPlan("file", ((False, False), (False, False)), num_sinks=4, window=24)
    model = loaded(FAMILIES["llama"], plan=none)
    document = read(model, TEXT)
    assert document.curves.floor == pytest.approx(29 / 2001)
    meter = ask(model, document, make_probes(model, document)[0], 0.5)
    assert meter.share() == pytest.approx(29 / 2001)


@pytest.mark.parametrize("family", ["gemma2", "gemma3"])
@pytest.mark.parametrize("budget", [0.25, 0.35, 0.5])
def test_windows_are_outside_of_the_budget(family: str, budget: float) -> None:
    """Every question reads a window whole: no budget between its size and 1 is out of reach."""
    model = loaded((FAMILIES | FURTHER)[family])
    document = read(model, TEXT)
    assert document.curves.floor < 0.25
    window = next(layer for layer in document.layers if layer.window is not None)
    for probe in make_probes(model, document)[:3]:
        meter = ask(model, document, probe, budget)
        assert meter.share(0, 1) == pytest.approx(budget, rel=0.15)
        passes = 1 + len(probe.answer_ids)
        assert meter.windowed == passes * window.constant_vectors * window.keys.shape[2] * 4
        assert meter.bytes_read == sum(map(int, meter.read)) + meter.windowed


@pytest.mark.parametrize("num_tokens", [1, 8, 70, 400])
def test_a_question_of_any_length_loads_what_it_asked_for(
    model: LoadedModel, document: DocumentCache, num_tokens: int
) -> None:
    ids = model.prompt.encode_question(prose(1000, seed=9))[:num_tokens]
    for budget in (0.3, 0.5):
        state = open_question(document, budget)
        forward(model.model, ids, state.position, state)
        assert state.meter.share() == pytest.approx(budget, rel=0.15)


def test_calibration_stops_when_a_batch_changes_nothing(model: LoadedModel) -> None:
    document, told = read(model, TEXT), []
    calibrate(model, document, replace(SETTINGS, num_probes=20 * BATCH["cpu"]), told.append)
    assert told[-1] == 20 * BATCH["cpu"]
    assert len(told) < 10


def test_calibration_goes_on_while_batches_change_something(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("precompute.calibrate.SETTLED", 0.0)  # the least change is one
    document, told = read(model, TEXT), []
    calibrate(model, document, replace(SETTINGS, num_probes=4 * BATCH["cpu"]), told.append)
    assert told == [count * BATCH["cpu"] for count in (1, 2, 3, 4)]
