"""What a model's attention looks like, found by asking it."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from common.errors import UnsupportedModel
from engine.attention import AttentionCall, forward


@dataclass(frozen=True)
class LayerSpec:
    """Attention of one layer; `window` is its sliding window in tokens, None for full attention."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    scale: float
    softcap: float | None
    window: int | None


@dataclass(frozen=True)
class ModelSpec:
    """All layers, and the context length in tokens."""

    layers: tuple[LayerSpec, ...]
    context_length: int

    @property
    def num_layers(self) -> int:
        """Number of attention layers."""
        return len(self.layers)


class _Probe:
    """An attention state that notes the calls and answers with the values."""

    def __init__(self) -> None:
        self.calls: list[AttentionCall] = []

    def attend(self, call: AttentionCall) -> Tensor:
        self.calls.append(call)
        return call.value.repeat_interleave(call.query.shape[0] // call.key.shape[0], dim=0)


def probe(model: nn.Module, num_layers: int, context_length: int) -> ModelSpec:
    """Send one token through the model and note how each layer calls attention.

    Raises: UnsupportedModel if some layer does not call the registered function exactly once, or if
        its query heads cannot be grouped over its key heads.
    """
    state = _Probe()
    device = next(model.parameters()).device
    forward(model, torch.zeros(1, dtype=torch.int64, device=device), 0, state)
    if [call.layer for call in state.calls] != list(range(num_layers)):
        raise UnsupportedModel(
            f"Of {num_layers} layers, {len(state.calls)} calls reached the attention interface: "
            "some layers compute attention in another way."
        )
    return ModelSpec(tuple(_layer_spec(call) for call in state.calls), context_length)


def _layer_spec(call: AttentionCall) -> LayerSpec:
    num_heads, num_kv_heads = call.query.shape[0], call.key.shape[0]
    if num_heads % num_kv_heads:
        raise UnsupportedModel(f"{num_heads} query heads cannot share {num_kv_heads} key heads.")
    return LayerSpec(
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=call.query.shape[2],
        scale=call.scale,
        softcap=call.softcap,
        window=call.window,
    )
