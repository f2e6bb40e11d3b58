"""From scores to plans."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers import LlamaConfig

from common import plugins
from common.errors import InvalidInput
from engine.model.head_plan import HeadPlan
from engine.model.loader import LoadedModel
from precompute import heads
from precompute.heads import base
from precompute.heads.all import AllHeads
from precompute.heads.base import (
    HeadMethod,
    Measure,
    Streaming,
    induction_ties,
    make_plan,
    num_chosen,
    ranked,
    refuse_plan,
    top_heads,
)
from precompute.heads.duo import DuoConfig
from precompute.heads.file import FileConfig, PatternFile, write_pattern
from precompute.heads.zigzag import Zigzag, ZigzagConfig
from tests.models import FAMILIES, loaded, sizes, unheard

TINY_DUO: dict[str, Any] = {"steps": 2, "min_tokens": 300, "max_tokens": 400, "num_passkeys": 2}


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return loaded(FAMILIES["llama"])


@pytest.mark.parametrize(
    ("total", "ratio", "count"),
    [(30, 0.25, 8), (30, 0.1, 3), (100, 0.07, 7), (256, 0.0, 0), (30, 0.001, 1), (7, 1.0, 7)],
)
def test_a_share_of_heads_is_rounded_up(total: int, ratio: float, count: int) -> None:
    assert num_chosen(total, ratio) == count


def test_of_equal_scores_the_first_heads_are_chosen() -> None:
    saturated = ((1.0, 0.2, 1.0), (1.0, 1.0, 0.3))
    assert top_heads(saturated, 0.5) == ((True, False, True), (True, False, False))
    assert ranked([0.0, 2.0, 2.0, 1.0, 2.0]) == [1, 2, 4, 3, 0]


def test_of_equal_scores_those_with_the_higher_ties_are_chosen() -> None:
    saturated = ((1.0, 0.2, 1.0), (1.0, 1.0, 0.3))
    ties = ((0.1, 0.9, 0.4), (0.3, 0.1, 0.9))
    assert top_heads(saturated, 0.5, ties) == ((True, False, True), (True, False, False))
    assert top_heads(saturated, 1 / 3, ties) == ((False, False, True), (True, False, False))
    assert ranked([1.0, 0.2, 1.0, 1.0, 1.0, 0.3], [0.1, 0.9, 0.4, 0.3, 0.1, 0.9]) == [
        2, 3, 0, 4, 5, 1,
    ]  # fmt: skip


PATTERN = Path(__file__).parent / "patterns" / "llama-3-8b"
MANY_LAYERS = LlamaConfig(**sizes(kv_heads=8) | {"num_hidden_layers": 32, "num_attention_heads": 8})


@pytest.fixture(scope="module")
def deep() -> LoadedModel:
    """A model of Llama-3-8B's layers and KV heads."""
    return loaded(MANY_LAYERS)


def test_ties_of_the_published_llama_3_pattern_are_broken_by_induction_scores(
    deep: LoadedModel,
) -> None:
    method = PatternFile(FileConfig(PATTERN))
    measure = method.measure(deep, unheard)
    saturated = {
        (layer, head)
        for layer, row in enumerate(measure.scores)
        for head, gate in enumerate(row)
        if gate == 1.0
    }
    assert len(saturated) == 82
    plan = make_plan("file", method, measure, 0.25, model=deep)
    chosen = {
        (layer, head)
        for layer, row in enumerate(plan.retrieval)
        for head, is_retrieval in enumerate(row)
        if is_retrieval
    }
    assert len(chosen) == 64
    assert chosen < saturated
    induction = induction_ties(deep)
    assert induction is not None
    least = min(induction[layer][head] for layer, head in chosen)
    assert all(induction[layer][head] <= least for layer, head in saturated - chosen)
    in_layer_order = top_heads(measure.scores, 0.25)
    assert plan.retrieval != in_layer_order
    assert max(layer for layer, _ in chosen) > max(
        layer for layer, row in enumerate(in_layer_order) if any(row)
    ), "the last layers have their chance, too"
    assert plan.settings["ties"] == "induction"
    assert make_plan("file", method, measure, 0.25, model=deep) == plan


def test_nothing_is_measured_where_no_tie_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(*_: Any) -> Any:
        raise AssertionError("a measurement that nobody needs")

    monkeypatch.setattr(base, "induction_ties", measured)
    model = loaded(FAMILIES["llama"])
    scores = Measure(((1.0, 0.5), (1.0, 0.2)))
    plan = make_plan("all", AllHeads(), scores, 0.5, model=model)
    assert "ties" not in plan.settings
    pattern = PatternFile(FileConfig(PATTERN))
    assert make_plan("file", pattern, scores, 0.5, model=model).retrieval[0] == (True, False)
    with pytest.raises(AssertionError, match="nobody needs"):
        make_plan("file", pattern, scores, 0.25, model=model)


def test_ties_of_layers_are_broken_too(deep: LoadedModel) -> None:
    plan = make_plan(
        "zigzag", Zigzag(ZigzagConfig()), Measure(((0.5,) * 8,) * 32), 0.25, model=deep
    )
    assert plan.settings["ties"] == "induction"
    chosen = {layer for layer, row in enumerate(plan.retrieval) if all(row)}
    assert len(chosen) == 8
    assert chosen != set(range(8))


def test_without_tokens_to_measure_with_ties_stay_in_layer_order() -> None:
    model = loaded(LlamaConfig(**sizes() | {"max_position_embeddings": 24}))
    pattern = PatternFile(FileConfig(PATTERN))
    plan = make_plan("file", pattern, Measure(((1.0, 1.0), (1.0, 1.0))), 0.5, model=model)
    assert plan.retrieval == ((True, True), (False, False))
    assert plan.settings["ties"] == "layer order"


def test_layers_may_differ_in_their_number_of_heads() -> None:
    assert top_heads(((0.1,), (0.3, 0.2, 0.4)), 0.5) == ((False,), (True, False, True))


def test_a_plan_says_how_it_was_made(model: LoadedModel) -> None:
    method = AllHeads()
    measure = method.measure(model, unheard)
    plan = make_plan(
        "all", method, measure, 0.5, model=model, streaming=Streaming(7, 99, compensation=False)
    )
    assert plan.retrieval == ((True, True), (True, True))
    assert (plan.num_sinks, plan.window, plan.compensation) == (7, 99, False)
    assert (plan.method, plan.scores, plan.settings) == ("all", measure.scores, {"ratio": 0.5})


@pytest.mark.parametrize("ratio", [-0.1, 1.1, float("nan")])
def test_a_ratio_is_a_share(model: LoadedModel, ratio: float) -> None:
    measure = AllHeads().measure(model, unheard)
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        make_plan("all", AllHeads(), measure, ratio, model=model)


def test_a_model_with_a_plan_is_not_measured(model: LoadedModel) -> None:
    refuse_plan(model)
    plan = HeadPlan("file", ((False, True), (True, True)))
    with pytest.raises(InvalidInput, match="heads='all'"):
        refuse_plan(replace(model, plan=plan))


# -- what every method in the folder promises ----------------------------------------------------


@pytest.fixture(params=plugins.names(heads))
def method(request: pytest.FixtureRequest, tmp_path: Path) -> HeadMethod:
    """A discovered method with settings for a tiny model."""
    settings: dict[str, Any] = {"duo": TINY_DUO, "zigzag": {"duo": DuoConfig(**TINY_DUO)}}
    settings["razor"] = {"num_ids": 40, "repeats": 3}
    settings["file"] = {"folder": tmp_path}
    write_pattern(HeadPlan("duo", ((True, False), (False, True))), tmp_path)
    config = plugins.load(heads, request.param).CONFIG(**settings.get(request.param, {}))
    built: HeadMethod = plugins.build(heads, request.param, config)
    return built


def test_a_discovered_method_scores_every_head_and_chooses_of_them(
    method: HeadMethod, model: LoadedModel
) -> None:
    measure = method.measure(model, unheard)
    shape = [layer.num_kv_heads for layer in model.spec.layers]
    assert [len(layer) for layer in measure.scores] == shape
    assert all(math.isfinite(score) for layer in measure.scores for score in layer)
    json.dumps(measure.settings)  # it is written into the plan
    for ratio in (0.5, 1.0):
        chosen = method.choose(measure, ratio)
        assert [len(layer) for layer in chosen] == shape
        assert sum(map(sum, chosen)) >= num_chosen(sum(shape), ratio)
    assert all(map(all, method.choose(measure, 1.0)))
