"""Decoding at fixed addresses, as a GPU does it, gives what the reference path gives."""

import gc
import logging
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch.testing import assert_close
from transformers import LlamaConfig

from common.errors import UnsupportedModel
from engine.attend.evidence import AttentionMass
from engine.attend.question import open_question
from engine.config import DecodeConfig, LookupConfig
from engine.decode.answer import Answer
from engine.decode.graph import DecodeGraph
from engine.decode.graph_pool import DecodeGraphPool, DecodeSession
from engine.decode.model_variants import compile_layers
from engine.decode.sampling import Sampling
from engine.document.budget import EXACT, READ_ALL
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.fallbacks import Cause, Fallbacks, Part
from engine.model.attention import forward, register
from engine.model.head_plan import HeadPlan
from engine.model.loader import LoadedModel, assemble
from precompute.config import PrecomputeConfig
from tests.engine.as_on_gpu import in_torch, in_triton
from tests.models import (
    ALIBI,
    FAMILIES,
    HALF,
    SETTINGS,
    answer,
    byte_tokenizer,
    loaded,
    prose,
    random_model,
    read,
    sizes,
)

QUESTION, BUDGET = "Who sold the maps?", 0.4
ONE_LAYER = HeadPlan("file", ((False, False), (True, True)), num_sinks=4, window=24)
TWO_LEVELS = replace(SETTINGS, lookup=LookupConfig(levels=2))


def ask(
    model: LoadedModel | Engine, document: DocumentCache, max_tokens: int = 8, **sampling: object
) -> Answer:
    how = Sampling(**{"max_tokens": max_tokens, **sampling})  # type: ignore[arg-type]
    engine = model if isinstance(model, Engine) else Engine(model)
    *_, last = engine.answer(document, QUESTION, budget=BUDGET, sampling=how)
    assert isinstance(last, Answer)
    return last


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return loaded(FAMILIES["llama"])


@pytest.fixture(scope="module")
def document(model: LoadedModel) -> DocumentCache:
    return read(model, prose(1000))


def same(found: Answer, expected: Answer) -> None:
    """The same answer, of the same reads and with the same evidence."""
    assert found.text == expected.text
    assert found.finish_reason == expected.finish_reason
    assert found.usage == expected.usage
    assert found.budget == expected.budget
    assert found.evidence
    spans = [[(one.start_char, one.end_char) for one in a.evidence] for a in (found, expected)]
    assert spans[0] == spans[1]
    weights = [[one.weight for one in a.evidence] for a in (found, expected)]
    assert weights[0] == pytest.approx(weights[1], abs=2e-4)


@pytest.mark.parametrize(
    ("family", "plan", "settings"),
    [
        ("llama", None, SETTINGS),
        ("llama-gqa4", None, SETTINGS),
        ("llama", HALF, SETTINGS),
        ("llama", ONE_LAYER, TWO_LEVELS),
    ],
)
def test_answers_budgets_and_evidence_are_the_references(
    family: str, plan: HeadPlan | None, settings: PrecomputeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = loaded(FAMILIES[family], plan=plan)
    document = read(model, prose(700), settings)
    expected = ask(model, document)
    in_torch(monkeypatch)
    found = ask(model, document)
    same(found, expected)
    assert 0 < found.budget.loaded_decode < 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="interprets kernels, for a model on the CPU")
@pytest.mark.parametrize(("plan", "settings"), [(None, SETTINGS), (HALF, TWO_LEVELS)])
def test_kernels_answer_as_the_references_do(
    plan: HeadPlan | None, settings: PrecomputeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = loaded(FAMILIES["llama"], plan=plan)
    document = read(model, prose(400), settings)
    expected = ask(model, document, max_tokens=3)
    in_triton(monkeypatch)
    same(ask(model, document, max_tokens=3), expected)


def test_logits_are_the_references_pass_by_pass(
    model: LoadedModel, document: DocumentCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_torch(monkeypatch)
    tokens = model.prompt.encode_answer("maps and lamps").split(1)
    found = passes(
        model, document, DecodeGraphPool(model.model, model.spec, DecodeConfig()), tokens
    )
    off = DecodeGraphPool(model.model, model.spec, DecodeConfig(triton_kernels=False))
    assert_close(found, passes(model, document, off, tokens), rtol=1e-4, atol=1e-4)


def passes(
    model: LoadedModel,
    document: DocumentCache,
    steps: DecodeGraphPool,
    tokens: tuple[torch.Tensor, ...],
) -> torch.Tensor:
    """Logits after each token that follows the question (tokens, vocabulary)."""
    state = open_question(document, BUDGET)
    asked = model.prompt.encode_question(QUESTION).to(model.device)
    forward(model.model, asked, state.position, state)
    with closing(DecodeSession(steps, model.model, state, len(asked) + len(tokens))) as decoding:
        logits = [decoding.logits(token.to(model.device)).clone() for token in tokens]
    return torch.stack(logits)


def test_sampled_answers_keep_their_seeds(
    model: LoadedModel, document: DocumentCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = ask(model, document, temperature=1.0, seed=3)
    in_torch(monkeypatch)
    same(ask(model, document, temperature=1.0, seed=3), expected)
    assert ask(model, document, temperature=1.0, seed=4).text != expected.text


def test_a_second_question_finds_nothing_of_the_first(
    model: LoadedModel, document: DocumentCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_torch(monkeypatch)
    engine = Engine(model)  # whose graph they share
    first = ask(engine, document)
    ask(engine, document, max_tokens=30, temperature=2.0, seed=1)
    same(ask(engine, document), first)
    assert engine.graphs.num_graphs == 1


def test_thresholds_follow_what_was_loaded(
    model: LoadedModel, document: DocumentCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A curve that promises too little is made up for, as without a step."""
    curve = document.curves.decode
    wrong = replace(curve, shares=tuple(share * 0.7 for share in curve.shares))
    biased = replace(document, curves=replace(document.curves, decode=wrong))
    in_torch(monkeypatch)
    loaded_decode = ask(model, biased, max_tokens=13).budget.loaded_decode
    assert loaded_decode == pytest.approx(BUDGET, rel=0.1)


def test_exact_questions_read_everything_as_before(
    model: LoadedModel, document: DocumentCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_torch(monkeypatch)
    *_, found = answer(model, document, QUESTION, budget=EXACT, sampling=Sampling(4))
    assert isinstance(found, Answer)
    assert found.budget.loaded == 1.0


def test_a_step_refuses_what_it_has_no_room_for(
    model: LoadedModel, document: DocumentCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_torch(monkeypatch)
    state = open_question(document, BUDGET)
    asked = model.prompt.encode_question(QUESTION)
    forward(model.model, asked, state.position, state)
    step = DecodeGraph(model.spec, document, len(asked) + 1)
    step.warm_up(model.model)
    step.begin(state.keys_and_values())
    token = torch.tensor([7])
    step.run(token, READ_ALL, state.meter)
    with pytest.raises(UnsupportedModel, match=f"more than {len(asked) + 1}"):
        step.run(token, READ_ALL, state.meter)
    with pytest.raises(UnsupportedModel, match="more than 4"):
        DecodeGraph(model.spec, document, 4).begin(state.keys_and_values())


def test_without_a_threshold_a_pass_reads_everything_and_its_centroids(
    model: LoadedModel, document: DocumentCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_torch(monkeypatch)
    state = open_question(document, BUDGET)
    exact = open_question(document, EXACT)
    asked, token = model.prompt.encode_question(QUESTION), torch.tensor([7])
    step = DecodeGraph(model.spec, document, 64)
    step.warm_up(model.model)
    for one in (state, exact):
        forward(model.model, asked, one.position, one)
    whole = open_question(document, EXACT)  # the question's own keys, after everything was read
    forward(model.model, asked, whole.position, whole)
    step.begin(whole.keys_and_values())
    logits = step.run(token, READ_ALL, whole.meter)
    assert_close(
        logits, forward(model.model, token, exact.position, exact)[-1], rtol=1e-4, atol=1e-4
    )
    vectors = sum(layer.full_vectors for layer in document.layers)
    centroids = sum(layer.level2.centroids[..., 0].numel() for layer in document.layers)
    assert whole.meter.share(1) == pytest.approx((vectors + centroids) / vectors)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="captures a CUDA graph")
@pytest.mark.parametrize("config", [DecodeConfig(), DecodeConfig(triton_linears=False)])
@pytest.mark.parametrize("plan", [None, HALF])
def test_replays_of_a_graph_are_passes_without_one(
    plan: HeadPlan | None, config: DecodeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = random_model(FAMILIES["llama"]).cuda()
    model = assemble(tiny, byte_tokenizer(), name="tiny", fingerprint="tiny", plan=plan)
    graphs = Engine(model, config).graphs
    document = read(model, prose(1000))
    tokens = model.prompt.encode_answer("maps and lamps").split(1)
    found = passes(model, document, graphs, tokens)
    with graphs.acquire(document, 1) as step:
        assert step is not None
        assert step.pool is not None
    assert_close(passes(model, document, graphs, tokens), found, rtol=0.0, atol=0.0)
    monkeypatch.setattr(DecodeGraph, "capture", lambda *_: None)
    plain = DecodeGraphPool(model.model, model.spec, config)
    assert_close(passes(model, document, plain, tokens), found, rtol=1e-5, atol=1e-5)


# -- falling back --------------------------------------------------------------------------------


def reasons(caplog: pytest.LogCaptureFixture) -> str:
    return "\n".join(record.getMessage() for record in caplog.records)


def test_a_cpu_has_no_steps(
    model: LoadedModel, document: DocumentCache, caplog: pytest.LogCaptureFixture
) -> None:
    engine = Engine(model)
    with engine.graphs.acquire(document, 10) as step:
        assert step is None
    assert not caplog.records
    assert not any(engine.fallbacks.counts().values())


def test_a_pass_that_cannot_be_captured_is_taken_without_a_graph(
    model: LoadedModel,
    document: DocumentCache,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    in_torch(monkeypatch)
    fallbacks = Fallbacks()
    steps = DecodeGraphPool(model.model, model.spec, DecodeConfig(), fallbacks)
    with steps.acquire(document, 300) as step:
        assert step is not None
        assert step.pool is None
        assert step.capacity == 512
    assert "without a graph" in reasons(caplog)
    assert fallbacks.counts()[Part.GRAPH, Cause.FAILED] == 1


def test_a_pass_that_fails_leaves_the_reference(
    model: LoadedModel,
    document: DocumentCache,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    expected = ask(model, document)
    in_torch(monkeypatch)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no compiler")

    monkeypatch.setattr("engine.decode.graph.decode_attention", fail)
    fresh = Engine(model)
    same(ask(fresh, document), expected)
    same(ask(fresh, document), expected)
    assert reasons(caplog).count("without kernels") == 1  # tried once
    assert fresh.fallbacks.counts()[Part.KERNELS, Cause.FAILED] >= 1


def test_widths_without_kernels_are_answered_and_told_apart(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = loaded(LlamaConfig(**sizes(head_dim=24)))
    document = read(model, prose(300))
    expected = ask(model, document, max_tokens=3)
    in_torch(monkeypatch)
    found = ask(model, document, max_tokens=3)
    assert replace(found, timings_ms={}) == replace(expected, timings_ms={})
    assert "keys of 24" in reasons(caplog)


@pytest.mark.parametrize(
    "kernel", ["engine.attend.clusters_gpu.attend_tokens", "engine.attend.question.attend_dense"]
)
def test_kernels_that_fail_leave_the_reference(
    kernel: str,
    model: LoadedModel,
    document: DocumentCache,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    expected = ask(model, document)
    in_torch(monkeypatch)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(kernel, fail)
    engine = Engine(model)
    same(ask(engine, document), expected)
    assert "attending without kernels" in reasons(caplog)
    assert engine.fallbacks.counts()[Part.KERNELS, Cause.FAILED] >= 1


def test_there_is_no_step_over_linear_biases() -> None:
    model = loaded(ALIBI["bloom"])
    with pytest.raises(UnsupportedModel, match="linear biases"):
        DecodeGraph(model.spec, read(model, prose(300)), 64)


def test_a_step_is_one_questions_at_a_time(
    model: LoadedModel,
    document: DocumentCache,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    in_torch(monkeypatch)
    caplog.set_level(logging.INFO)
    fallbacks = Fallbacks()
    steps = DecodeGraphPool(model.model, model.spec, DecodeConfig(), fallbacks)
    with steps.acquire(document, 10) as first:
        with steps.acquire(document, 10) as second:
            assert second is None
        assert "another question" in reasons(caplog)
        assert fallbacks.counts()[Part.GRAPH, Cause.IN_USE] == 1
    with steps.acquire(document, 256) as third:
        assert third is first is not None


def test_steps_go_with_their_document(
    model: LoadedModel, document: DocumentCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_torch(monkeypatch)
    monkeypatch.setattr(DecodeGraph, "capture", lambda *_: None)
    steps = DecodeGraphPool(model.model, model.spec, DecodeConfig())
    passing = replace(document)
    with steps.acquire(passing, 10) as step:
        assert step is not None
    assert steps.num_graphs == 1
    del passing, step
    gc.collect()
    assert steps.num_graphs == 0


def test_mass_of_a_question_that_ends_early_is_kept(
    model: LoadedModel, document: DocumentCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_torch(monkeypatch)
    mass = AttentionMass(document, model.device)
    state = open_question(document, BUDGET, mass)
    asked = model.prompt.encode_question(QUESTION)
    forward(model.model, asked, state.position, state)
    before = mass.on_tokens().sum()
    with closing(DecodeSession(Engine(model).graphs, model.model, state, 100)) as decoding:
        decoding.logits(torch.tensor([7]))
    assert mass.on_tokens().sum() > before


# -- compiled layers -----------------------------------------------------------------------------


@pytest.fixture
def eagerly(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Layers are traced as for a compiler, and then run as they were; the registry is restored."""
    traced = partial(compile_layers, backend="eager")
    monkeypatch.setattr("engine.decode.graph_pool.compile_layers", traced)
    yield
    register()


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize(
    "config",
    [
        DecodeConfig(compiled_layers=False),
        DecodeConfig(compiled_layers=True),
        DecodeConfig(compiled_layers=True, triton_linears=False),
    ],
)
def test_other_layers_answer_alike(
    config: DecodeConfig,
    model: LoadedModel,
    document: DocumentCache,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    expected = ask(model, document)
    in_torch(monkeypatch)
    fresh = Engine(model, config)
    same(ask(fresh, document), expected)
    assert fresh.graphs.variant is not None
    kinds = {type(module).__name__ for module in fresh.graphs.variant.modules()}
    assert ("SharedTritonLinear" in kinds) == config.triton_linears
    assert fresh.graphs.effective_config == config
    assert "they failed" not in reasons(caplog)


def test_compiled_layers_share_weights_and_leave_the_model_alone(model: LoadedModel) -> None:
    twin = compile_layers(model.model, model.spec.num_layers, backend="eager")
    register()
    assert [id(p) for p in twin.parameters()] == [id(p) for p in model.model.parameters()]
    ours, theirs = (set(map(id, one.modules())) for one in (model.model, twin))
    assert not ours & theirs
    compiled = {type(one).__name__ for one in twin.modules() if one._compiled_call_impl is not None}
    assert compiled == {"LlamaDecoderLayer", "LlamaRMSNorm", "LlamaRotaryEmbedding"}
    assert all(one._compiled_call_impl is None for one in model.model.modules())


def test_layers_that_cannot_be_compiled_are_run_as_they_are(
    model: LoadedModel,
    document: DocumentCache,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    expected = ask(model, document)
    in_torch(monkeypatch)

    def fail(*_: object) -> None:
        raise RuntimeError("no compiler")

    monkeypatch.setattr("engine.decode.graph_pool.compile_layers", fail)
    fresh = Engine(model, DecodeConfig(compiled_layers=True))
    same(ask(fresh, document), expected)
    assert "without compiled layers" in reasons(caplog)


@pytest.mark.usefixtures("eagerly")
def test_products_that_fail_leave_compiled_layers(
    model: LoadedModel,
    document: DocumentCache,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    expected = ask(model, document)
    in_torch(monkeypatch)

    def fail(*_: object) -> None:
        raise RuntimeError("no kernel")

    monkeypatch.setattr("engine.decode.graph_pool.with_triton_linears", fail)
    fresh = Engine(model, DecodeConfig(compiled_layers=True))
    same(ask(fresh, document), expected)
    assert "without compiled layers and Triton linears" in reasons(caplog)
    assert reasons(caplog).count("they failed") == 1
    expected_config = DecodeConfig(compiled_layers=True, triton_linears=False)
    assert fresh.graphs.effective_config == expected_config
