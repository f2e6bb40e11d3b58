"""What a model's attention looks like, found by asking it."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from common.errors import UnsupportedModel
from engine.model.alibi import Alibi
from engine.model.attention import AttentionCall, forward
from engine.model.finite import all_finite

PROBED_TOKENS = 3


@dataclass(frozen=True)
class LayerSpec:
    """Attention of one layer.

    Attributes:
        window: its sliding window in tokens, None for full attention.
        alibi: its heads' linear biases, None for a model without.
        has_sink_logits: whether its heads have sink logits (gpt-oss).
    """

    num_heads: int
    num_kv_heads: int
    head_dim: int
    scale: float
    softcap: float | None
    window: int | None
    alibi: Alibi | None = None
    has_sink_logits: bool = False


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
    """Send a few tokens through the model and note how each layer calls attention.

    Raises: UnsupportedModel if some layer does not call the registered function exactly once, if
        its query heads cannot be grouped over its key heads, or if the model counts positions in
        another way than from the first token on.
    """
    calls, spec = _layer_calls(model, num_layers, context_length)
    for call in calls:
        if not bool(all_finite(call.key)):
            raise UnsupportedModel(
                f"Layer {call.layer} computes infinite or undefined keys: its weights are damaged, "
                "or the model needs a dtype of wider range (LECTERN_DTYPE)."
            )
    if all(call.alibi is not None for call in calls):
        return spec  # positions are in the biases, and so with the state
    if not _same_keys(calls, _calls(model, start=None)):
        raise UnsupportedModel("The model counts positions in a way of its own.")
    if _same_keys(calls, _calls(model, start=1)):
        raise UnsupportedModel("The model ignores the positions that it is given.")
    return spec


def probe_logits(model: nn.Module) -> Tensor:
    """Return the logits (1, vocabulary), fp32, of a few tokens that attend to themselves alone."""
    return forward(model, _probe_ids(model), 0, _Probe())


def probe_shapes(model: nn.Module, num_layers: int, context_length: int) -> ModelSpec:
    """As `probe`, for a model without values: what it does with positions is not looked at.

    Raises: UnsupportedModel as `probe`.
    """
    return _layer_calls(model, num_layers, context_length)[1]


def _layer_calls(
    model: nn.Module, num_layers: int, context_length: int
) -> tuple[list[AttentionCall], ModelSpec]:
    """The calls of a few tokens, one of each layer, and what they say about the layers."""
    calls = _calls(model, start=0)
    if [call.layer for call in calls] != list(range(num_layers)):
        raise UnsupportedModel(
            f"Of {num_layers} layers, {len(calls)} calls reached the attention interface: "
            "some layers compute attention in another way."
        )
    return calls, ModelSpec(tuple(_layer_spec(call) for call in calls), context_length)


@torch.inference_mode()
def _calls(model: nn.Module, start: int | None) -> list[AttentionCall]:
    """The attention calls of a few tokens from position `start` on; None leaves it to the model."""
    state = _Probe()
    ids = _probe_ids(model)
    if start is None:
        model(input_ids=ids[None], use_cache=False, logits_to_keep=1, lectern=state)
    else:
        forward(model, ids, start, state)
    return state.calls


def _probe_ids(model: nn.Module) -> Tensor:
    return torch.zeros(PROBED_TOKENS, dtype=torch.int64, device=next(model.parameters()).device)


def _same_keys(some: list[AttentionCall], others: list[AttentionCall]) -> bool:
    """Whether keys are alike in every layer, but for rounding."""
    return all(
        torch.allclose(a.key, b.key, rtol=0.0, atol=1e-2 * float(a.key.abs().max()))
        for a, b in zip(some, others, strict=True)
    )


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
        alibi=call.alibi,
        has_sink_logits=call.sink_logits is not None,
    )
