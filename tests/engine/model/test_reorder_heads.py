"""Retrieval heads come first, and nothing else changes."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close
from transformers import PretrainedConfig

from common.errors import UnsupportedModel
from engine.model import reorder_heads as head_order
from engine.model.attention import HEAD_ORDER, AttentionCall
from engine.model.head_order import HeadOrder
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


AT_RUN_TIME = ["gpt2", "opt", "phi", "olmo2", "olmo3", "gpt-oss"]


@pytest.mark.parametrize("family", AT_RUN_TIME)
def test_where_weights_cannot_be_moved_heads_are_put_in_order_at_run_time(family: str) -> None:
    config = FURTHER[family]
    model, before = under(mixed(config), trained(config)), trained(config)
    for name, weight in before.named_parameters():
        assert torch.equal(model.model.get_parameter(name), weight), name
    ordered = {module.layer_idx for module in model.model.modules() if hasattr(module, HEAD_ORDER)}
    full = [index for index, layer in enumerate(model.spec.layers) if layer.window is None]
    assert ordered == set(full)


def test_the_order_at_run_time_is_undone_behind_attention() -> None:
    order = HeadOrder.of([2, 0, 1], 2, torch.device("cpu"))
    query, key = torch.arange(6.0).view(6, 1, 1), torch.arange(3.0).view(3, 1, 1)
    sinks = torch.arange(6.0)
    call = order.apply(AttentionCall(0, query, key, key + 10, 1.0, None, None, None, sinks))
    assert call.key.flatten().tolist() == [2, 0, 1]
    assert call.value.flatten().tolist() == [12, 10, 11]
    assert call.query.flatten().tolist() == [4, 5, 0, 1, 2, 3]
    assert call.sink_logits is not None
    assert call.sink_logits.tolist() == [4, 5, 0, 1, 2, 3]
    assert torch.equal(order.undo(call.query), query)


def test_a_wrong_order_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def queries_alone(module: Any, *_: object) -> None:
        module.q_proj.weight.copy_(module.q_proj.weight.roll(16, 0))

    monkeypatch.setattr(head_order, "_reorder", queries_alone)
    with pytest.raises(UnsupportedModel, match="changed the logits"):
        under(mixed(FAMILIES["llama"]), random_model(FAMILIES["llama"]))


def test_a_plan_without_streaming_heads_touches_no_weight() -> None:
    model = loaded(FURTHER["gpt2"])
    order_heads(model.model, model.spec, model.plan)
