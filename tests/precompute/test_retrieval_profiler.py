"""Which heads retrieve, and what is attended to anyway, measured on probes."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from engine.attend.evidence import AttentionMass
from engine.attend.question import open_question
from engine.config import LookupConfig
from engine.document.budget import EXACT
from engine.document.cache import DocumentCache
from engine.document.retrieval_profile import RetrievalProfile
from engine.model.attention import forward
from engine.model.loader import LoadedModel
from precompute.probe_batch import ask_probes
from precompute.probes import Probe, ProbeMaker
from precompute.retrieval_profiler import RetrievalProfiler
from precompute.score_histogram import ScoreHistogram
from tests.models import FAMILIES, SETTINGS, loaded, prose, read


@pytest.fixture(scope="module", params=["llama", "llama-gqa4"])
def model(request: pytest.FixtureRequest) -> LoadedModel:
    return loaded(FAMILIES[request.param])


@pytest.fixture(scope="module")
def document(model: LoadedModel) -> DocumentCache:
    return read(model, prose(1200), replace(SETTINGS, lookup=LookupConfig(levels=1)))


@pytest.fixture(scope="module")
def probes(model: LoadedModel, document: DocumentCache) -> list[Probe]:
    return ProbeMaker(document, model.prompt, 1000, seed=3).make(4)


def profile_of(
    model: LoadedModel, document: DocumentCache, probes: list[Probe]
) -> RetrievalProfile:
    counters = (ScoreHistogram(document.lookup, document, apart=part) for part in (False, True))
    profiler = RetrievalProfiler(document)
    ask_probes(model, document, probes, *counters, profiler=profiler)
    found = profiler.profile()
    assert found is not None
    return found


def asked_alone(
    model: LoadedModel, document: DocumentCache, probe: Probe, profile: RetrievalProfile | None
) -> tuple[torch.Tensor, int]:
    """Attention mass of a probe that is asked like a question, its answer given, and its passes."""
    mass = AttentionMass(replace(document, profile=profile, num_sinks=0), model.device)
    state = open_question(document, EXACT, mass)
    given = probe.answer_ids[:-1]
    passes = [probe.question_ids, *(given.split(1) if len(given) else ())][:4]
    for ids in passes:
        forward(model.model, ids, state.position, state)
    return mass.on_tokens(), len(passes)


def span_of(document: DocumentCache, probe: Probe) -> torch.Tensor:
    start, end = probe.passage
    return (document.offsets[:, 1] > start) & (document.offsets[:, 0] < end)


def test_a_head_counts_by_its_mass_on_what_was_asked_for(
    model: LoadedModel, document: DocumentCache, probes: list[Probe]
) -> None:
    """Mass is measured one head at a time, by weights of 0 for all others."""
    shares = torch.zeros_like(profile_of(model, document, probes).head_weights)
    for layer, head in torch.cartesian_prod(*map(torch.arange, shares.shape)).tolist():
        only = torch.zeros_like(shares)
        only[layer, head] = 1.0
        for probe in probes:
            one = RetrievalProfile(only, torch.zeros(document.num_tokens))
            mass, passes = asked_alone(model, document, probe, one)
            shares[layer, head] += mass[span_of(document, probe)].sum() / passes
    group = model.spec.layers[0].num_heads // model.spec.layers[0].num_kv_heads
    found = profile_of(model, document, probes).head_weights
    assert_close(found, shares / (shares.sum() * group), rtol=1e-3, atol=1e-6)


def test_of_many_heads_those_that_find_most_count(
    model: LoadedModel,
    document: DocumentCache,
    probes: list[Probe],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    every = profile_of(model, document, probes).head_weights
    monkeypatch.setattr("precompute.retrieval_profiler.MOST_HEADS", 1)
    found = profile_of(model, document, probes).head_weights
    best = every.flatten().topk(1).indices
    wanted = torch.zeros_like(every).flatten().index_copy(0, best, every.flatten()[best])
    assert_close(found.flatten(), wanted * every.sum() / wanted.sum())
    assert profile_of(model, document, probes).log_weights(torch.device("cpu")).isneginf().any()


def test_neutral_is_what_tokens_get_when_something_else_is_asked_for(
    model: LoadedModel, document: DocumentCache, probes: list[Probe]
) -> None:
    found = profile_of(model, document, probes)
    wanted = torch.zeros(document.num_tokens)
    for probe in probes:
        mass, passes = asked_alone(model, document, probe, found)
        wanted += mass.masked_fill(span_of(document, probe), 0.0) / passes / len(probes)
    wanted[: document.num_sinks] = 0.0
    assert_close(found.neutral, wanted, rtol=1e-3, atol=1e-6)


def test_what_is_neutral_is_taken_off_for_each_pass(
    model: LoadedModel, document: DocumentCache
) -> None:
    neutral = torch.zeros(document.num_tokens)
    neutral[50] = 0.25
    weights = torch.ones(len(document.layers), document.layers[0].num_retrieval)
    profile = RetrievalProfile(weights, neutral)
    mass = AttentionMass(replace(document, profile=profile), model.device)
    given = torch.full((document.num_tokens,), 0.6)
    less = mass.above_neutral(given, 2)
    assert less[document.num_sinks :].unique().tolist() == pytest.approx([0.1, 0.6])
    assert (mass.above_neutral(given, 3)[50], given[50]) == (0.0, pytest.approx(0.6))


def test_calibration_leaves_a_profile(document: DocumentCache) -> None:
    assert document.profile is not None
    assert (document.profile.neutral >= 0).all()
    assert document.profile.neutral.sum() > 0
