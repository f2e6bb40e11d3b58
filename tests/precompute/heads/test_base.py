"""From scores to plans."""

from dataclasses import replace

import pytest

from common import plugins
from common.errors import InvalidInput
from engine.model.head_plan import HeadPlan
from engine.model.loader import LoadedModel
from precompute import heads
from precompute.heads.all import AllHeads
from precompute.heads.base import (
    Streaming,
    make_plan,
    num_chosen,
    ranked,
    refuse_plan,
    top_heads,
)
from tests.models import FAMILIES, loaded, unheard


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


def test_a_method_is_a_file() -> None:
    assert plugins.names(heads) == ("all", "duo", "file", "razor", "zigzag")
