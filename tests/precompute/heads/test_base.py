"""From scores to plans."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common import plugins
from common.errors import InvalidInput
from engine.model.head_plan import HeadPlan
from engine.model.loader import LoadedModel
from precompute import heads
from precompute.heads.all import AllHeads
from precompute.heads.base import (
    HeadMethod,
    Streaming,
    make_plan,
    num_chosen,
    ranked,
    refuse_plan,
    top_heads,
)
from precompute.heads.duo import DuoConfig
from precompute.heads.file import write_pattern
from tests.models import FAMILIES, loaded, unheard

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
