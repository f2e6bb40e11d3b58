"""Retrieval heads come first, and nothing else changes."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close
from transformers import PretrainedConfig

from common.errors import UnsupportedModel
from engine.model import reorder_heads as head_order
from engine.model.head_plan import HeadPlan
from engine.model.loader import LoadedModel, assemble
from engine.model.reorder_heads import order_heads
from tests.models import FAMILIES, FURTHER, byte_tokenizer, loaded, random_model

SPLIT = [*FAMILIES, "cohere2", "gemma3", "gemma3-vision", "glm4", "granite", "mixtral", "smollm3"]


def mixed(config: PretrainedConfig) -> HeadPlan:
    """A plan by which the first head of every layer streams, if there is another."""
    spec = loaded(config).spec
    rows = (([False, True] * layer.num_kv_heads)[-layer.num_kv_heads :] for layer in spec.layers)
    return HeadPlan("file", tuple(map(tuple, rows)))


def trained(config: PretrainedConfig) -> Any:
    """A random model whose norms have learned something."""
    model = random_model(config)
    for name, weight in model.named_parameters():
        if "norm" in name:
            nn.init.normal_(weight, mean=1.0, std=0.3)
    return model


def under(plan: HeadPlan | None, model: Any) -> LoadedModel:
    return assemble(model, byte_tokenizer(), name="tiny", fingerprint="tiny", plan=plan)


def logits(model: nn.Module) -> Tensor:
    """Transformers' own, of a few tokens."""
    model.set_attn_implementation("eager")  # type: ignore[operator]
    with torch.inference_mode():
        found: Tensor = model(torch.arange(40)[None]).logits[0]
    return found


@pytest.mark.parametrize("family", SPLIT)
def test_the_model_says_the_same_with_its_heads_in_another_order(family: str) -> None:
    config = (FAMILIES | FURTHER)[family]
    before = logits(trained(config))
    model = under(mixed(config), trained(config))
    assert_close(logits(model.model), before, rtol=1e-3, atol=1e-3)


def test_retrieval_heads_and_their_query_heads_come_first() -> None:
    config = FAMILIES["llama-mha"]
    plan = HeadPlan("file", ((False, True, False, True), (True, True, False, False)))
    first, second = under(plan, random_model(config)).model.model.layers  # type: ignore[union-attr]
    old = random_model(config).model.layers
    for name in ("q_proj", "k_proj", "v_proj"):
        rows = getattr(old[0].self_attn, name).weight.unflatten(0, (4, -1))
        moved = getattr(first.self_attn, name).weight.unflatten(0, (4, -1))
        assert torch.equal(moved, rows[[1, 3, 0, 2]])
    assert torch.equal(second.self_attn.q_proj.weight, old[1].self_attn.q_proj.weight)


@pytest.mark.parametrize("family", ["gpt2", "opt", "phi", "olmo2", "olmo3"])
def test_unknown_projections_and_norms_are_refused(family: str) -> None:
    with pytest.raises(UnsupportedModel, match=r"Layer \d .*cannot be split"):
        under(mixed(FURTHER[family]), random_model(FURTHER[family]))
    assert under(None, random_model(FURTHER[family])).plan.ratio == 1.0


def test_a_wrong_order_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def queries_alone(module: Any, *_: object) -> None:
        module.q_proj.weight.copy_(module.q_proj.weight.roll(16, 0))

    monkeypatch.setattr(head_order, "_reorder", queries_alone)
    with pytest.raises(UnsupportedModel, match="changed the logits"):
        under(mixed(FAMILIES["llama"]), random_model(FAMILIES["llama"]))


def test_a_plan_without_streaming_heads_touches_no_weight() -> None:
    model = loaded(FURTHER["gpt2"])
    order_heads(model.model, model.spec, model.plan)
