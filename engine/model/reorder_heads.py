"""Each layer's retrieval heads first.

Where a layer's projections are plain matrices, they are reordered once, so that no token pays for
it: the rows of the query, key and value projections and the columns of the output projection are
moved head by head, which changes nothing but the order in which attention meets its heads. Source:
DuoAttention, section 2.4. Everywhere else (quantised weights, projections of other names, weights
of single heads) the heads are brought in order at run time, around attention.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from common.errors import UnsupportedModel
from engine.kernels.prefill.attend_causal import attend_causal
from engine.model.attention import HEAD_ORDER, AttentionCall, forward
from engine.model.head_order import HeadOrder
from engine.model.head_plan import HeadPlan
from engine.model.quantisation import is_plain_linear
from engine.model.sink_logits import with_sink_logits
from engine.model.spec import LayerSpec, ModelSpec

PROJECTIONS = (("q_proj", "k_proj", "v_proj", "o_proj"), ("qkv_proj", "o_proj"))
PROBED_TOKENS = 16
TOLERANCE = {torch.float32: 1e-3}  # of the logits' norm; a wrong order is off by about 1
HALF_TOLERANCE = 5e-2


def order_heads(model: nn.Module, spec: ModelSpec, plan: HeadPlan) -> None:
    """Bring every layer's retrieval KV heads, and the query heads that share them, to the front.

    Layers with a sliding window stay as they are. Logits are compared before and after.

    Raises: UnsupportedModel if logits change.
    """
    orders = {
        index: order
        for index, layer in enumerate(spec.layers)
        if layer.window is None and (order := _order(plan.retrieval[index])) is not None
    }
    if not orders:
        return
    found = _attentions(model, spec)
    before = _logits(model)
    with torch.inference_mode():
        for index, order in orders.items():
            if index in found:
                _reorder(found[index], spec.layers[index], order)
            else:
                _reorder_at_run_time(model, index, spec.layers[index], order)
    change = float((_logits(model) - before).norm() / before.norm())
    if not change < TOLERANCE.get(next(model.parameters()).dtype, HALF_TOLERANCE):
        raise UnsupportedModel(
            f"Reordering heads changed the logits by {change:.1e}: some layer tells its heads "
            "apart in a way of its own, and cannot be split into retrieval and streaming heads."
        )


def _order(retrieval: Sequence[bool]) -> list[int] | None:
    """Retrieval heads, then the others; None if they stand so already."""
    order = sorted(range(len(retrieval)), key=lambda head: not retrieval[head])
    return None if order == sorted(order) else order


def _attentions(model: nn.Module, spec: ModelSpec) -> dict[int, Any]:
    """By layer, the modules all of whose weights are known."""
    found = ((getattr(module, "layer_idx", None), module) for module in model.modules())
    return {
        index: module
        for index, module in found
        if isinstance(index, int) and _is_known(module, spec.layers[index].head_dim)
    }


def _is_known(module: nn.Module, head_dim: int) -> bool:
    """Whether it has projections that can be reordered, and else only weights that heads share."""
    for names in PROJECTIONS:
        if all(is_plain_linear(getattr(module, name, None)) for name in names):
            others = (
                weight
                for name, weight in module.named_parameters()
                if name.partition(".")[0] not in names
            )
            return all(weight.shape == (head_dim,) for weight in others)
    return False


def _reorder(module: Any, layer: LayerSpec, order: list[int]) -> None:
    group = layer.num_heads // layer.num_kv_heads
    keys = _rows(order, layer.head_dim)
    queries = _rows(order, group * layer.head_dim)
    if hasattr(module, "qkv_proj"):
        num_queries, num_keys = len(queries), len(keys)
        rows = (queries, num_queries + keys, num_queries + num_keys + keys)
        _move_rows(module.qkv_proj, torch.cat(rows))
    else:
        _move_rows(module.q_proj, queries)
        _move_rows(module.k_proj, keys)
        _move_rows(module.v_proj, keys)
    weight = module.o_proj.weight
    weight.copy_(weight[:, queries.to(weight.device)])


def _reorder_at_run_time(
    model: nn.Module, index: int, layer: LayerSpec, order: Sequence[int]
) -> None:
    """Let a layer's attention module know its order; decoder layers that bear its number ignore it.

    `lectern_attention` reads it from the module that calls it.
    """
    device = next(model.parameters()).device
    head_order = HeadOrder.of(order, layer.num_heads // layer.num_kv_heads, device)
    for module in model.modules():
        if getattr(module, "layer_idx", None) == index:
            setattr(module, HEAD_ORDER, head_order)


def _rows(order: list[int], size: int) -> Tensor:
    """Places of blocks of `size` rows in a new order."""
    return (torch.tensor(order)[:, None] * size + torch.arange(size)).flatten()


def _move_rows(projection: nn.Linear, rows: Tensor) -> None:
    for weight in (projection.weight, projection.bias):
        if weight is not None:
            weight.copy_(weight[rows.to(weight.device)])


class _FullAttention:
    """An attention state for one pass in which every token sees all before it."""

    def attend(self, call: AttentionCall) -> Tensor:
        state = attend_causal(
            call.query, call.key, call.value, scale=call.scale, softcap=call.softcap
        )
        return with_sink_logits(state, call.sink_logits).out


def _logits(model: nn.Module) -> Tensor:
    """Of a few different tokens (tokens, vocabulary)."""
    device = next(model.parameters()).device
    ids = torch.arange(1, PROBED_TOKENS + 1, device=device)
    return forward(model, ids, 0, _FullAttention(), keep=PROBED_TOKENS)
