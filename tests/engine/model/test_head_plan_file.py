"""Head plans on disk."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.errors import HeadPlanRejected
from engine.model.head_plan import (
    HeadPlan,
    check_plan,
    from_fields,
    read_plan,
    to_fields,
    to_json,
    write_plan,
)
from engine.model.spec import LayerSpec, ModelSpec

PLAN = HeadPlan(
    method="duo",
    retrieval=((True, False), (False, False)),
    num_sinks=7,
    window=99,
    compensation=False,
    scores=((1.0, 1 / 3), (0.0, 1e-20)),
    settings={"steps": 300, "haystack": "", "echo": [[0.5, 0.25], [0.0, 0.0]]},
    model="abc",
)
LAYER = LayerSpec(num_heads=4, num_kv_heads=2, head_dim=16, scale=0.25, softcap=None, window=None)
SPEC = ModelSpec((LAYER, LAYER), context_length=4096)


@pytest.mark.parametrize("plan", [PLAN, HeadPlan("all", ((True,), (True, True)))])
def test_a_plan_comes_back_as_it_was(tmp_path: Path, plan: HeadPlan) -> None:
    write_plan(plan, tmp_path / "new" / "plan.json")
    assert read_plan(tmp_path / "new" / "plan.json") == plan


def test_a_layer_is_a_line(tmp_path: Path) -> None:
    assert "\n  [1, 0],\n  [0, 0]\n" in to_json(PLAN)


def without(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda fields: fields.pop(name)


def put(name: str, value: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda fields: fields.update({name: value})


@pytest.mark.parametrize(
    "spoil",
    [
        without("format"),
        without("retrieval"),
        without("method"),
        put("format", 2),
        put("unknown", 1),
        put("retrieval", []),
        put("retrieval", [[2, 0], [0, 0]]),
        put("retrieval", "all"),
        put("scores", [[1.0, 0.5]]),
        put("scores", [[1.0, 0.5], [0.0, "high"]]),
        put("num_sinks", -1),
        put("window", 0),
    ],
)
def test_a_damaged_plan_is_refused(tmp_path: Path, spoil: Callable[[dict[str, Any]], Any]) -> None:
    fields = json.loads(to_json(PLAN))
    spoil(fields)
    (tmp_path / "plan.json").write_text(json.dumps(fields))
    with pytest.raises(HeadPlanRejected, match=r"plan\.json"):
        read_plan(tmp_path / "plan.json")


@pytest.mark.parametrize("text", ["", "[]", "3", "{"])
def test_what_is_no_plan_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(HeadPlanRejected):
        read_plan(tmp_path / "plan.json")


def test_a_missing_plan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HeadPlanRejected):
        read_plan(tmp_path / "plan.json")


def test_a_plan_fits_its_model_and_one_without_a_name_any_of_its_shape() -> None:
    check_plan(PLAN, SPEC, "abc")
    check_plan(replace(PLAN, model=""), SPEC, "other")


@pytest.mark.parametrize(
    "retrieval",
    [((True, True),), ((True, True),) * 3, ((True,), (True,)), ((True, True), (True,))],
)
def test_a_plan_of_another_shape_is_refused(retrieval: tuple[tuple[bool, ...], ...]) -> None:
    plan = replace(PLAN, retrieval=retrieval)
    with pytest.raises(HeadPlanRejected, match="the model has 2 layers of 2 KV heads"):
        check_plan(plan, SPEC, "abc")


def test_a_plan_for_other_weights_is_refused() -> None:
    with pytest.raises(HeadPlanRejected, match="other weights"):
        check_plan(PLAN, SPEC, "other")


RAZOR = HeadPlan("razor", ((True, False),), num_sinks=4, window=4000, window_share=0.2)


@pytest.mark.parametrize(
    ("num_tokens", "window"),
    [(1, 4000), (20_000, 4000), (20_001, 4001), (100_000, 20_000), (128_003, 25_601)],
)
def test_a_window_may_grow_with_the_document(num_tokens: int, window: int) -> None:
    assert RAZOR.window_for(num_tokens) == window
    assert replace(RAZOR, window_share=0.0).window_for(num_tokens) == 4000


def test_a_share_of_the_document_is_written_and_counts(tmp_path: Path) -> None:
    write_plan(RAZOR, tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json") == RAZOR
    constant = replace(RAZOR, window_share=0.0)
    assert constant.fingerprint != RAZOR.fingerprint
    assert "window_share" not in to_fields(constant), "as earlier versions wrote it"
    for share in (-0.1, 1.1):
        with pytest.raises(ValueError, match="share of its window"):
            from_fields(to_fields(replace(RAZOR, window_share=share)))
