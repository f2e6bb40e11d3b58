"""The one attention function that is registered with transformers.

It owns nothing: each forward pass hands it an `AttentionState` through the keyword argument
`lectern`, and the state owns causality, windows and caches. Because the name has no mask function,
transformers builds and passes no mask.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

from common.errors import UnsupportedModel
from engine.model.alibi import Alibi

NAME = "lectern"
HEAD_ORDER = "lectern_head_order"  # attribute of an attention module whose weights stay in place
# Arguments that transformers passes along and that change no score.
HARMLESS = frozenset(
    {"dropout", "position_ids", "cache_position", "use_cache", "output_attentions", "is_causal",
     "output_hidden_states", "output_router_logits", "return_dict", "position_embeddings"}
)  # fmt: skip


@dataclass(frozen=True)
class AttentionCall:
    """What a layer asks for.

    Attributes:
        layer: index of the layer.
        query: (heads, tokens, head_dim), after RoPE.
        key, value: (kv_heads, tokens, head_dim), after RoPE.
        scale: factor on the dot product.
        softcap: cap on scores, or None.
        window: a token sees itself and the `window - 1` tokens before it; None for all.
        alibi: the heads' linear biases; None for a model without.
        sink_logits: (heads,), see `engine.model.sink_logits`; None for a model without.
    """

    layer: int
    query: Tensor
    key: Tensor
    value: Tensor
    scale: float
    softcap: float | None
    window: int | None
    alibi: Alibi | None = None
    sink_logits: Tensor | None = None


class HeadOrdering(Protocol):
    """An order of heads that a layer's calls are brought into, see `engine.model.head_order`."""

    def apply(self, call: AttentionCall) -> AttentionCall:
        """Bring a call's heads into the order."""
        ...

    def undo(self, out: Tensor) -> Tensor:
        """Bring outputs (heads, tokens, head_dim) into the layer's own order."""
        ...


class AttentionState(Protocol):
    """Whoever answers the layers' calls in a forward pass."""

    def attend(self, call: AttentionCall) -> Tensor:
        """Return the outputs (heads, tokens, head_dim) in the query's dtype."""
        ...


def register() -> None:
    """Make the function known to transformers; called when a model is loaded, never on import."""
    AttentionInterface.register(NAME, lectern_attention)


def lectern_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    sliding_window: int | None = None,
    s_aux: Tensor | None = None,
    lectern: AttentionState | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Hand a layer's call to the state of this forward pass; batch size is 1.

    Raises: UnsupportedModel if the layer passes a mask or any further argument that changes scores,
        if it is not causal, or if keys and values differ in width: serving on would be silently
        wrong.
    """
    unknown = [name for name, given in others.items() if given is not None and name not in HARMLESS]
    if unknown:
        raise UnsupportedModel(
            f"Layer {module.layer_idx} passes {', '.join(sorted(unknown))} to attention, which "
            "changes scores in a way that this engine does not know."
        )
    if lectern is None:
        raise UnsupportedModel("The model does not pass arguments on to its attention.")
    if attention_mask is not None:
        raise UnsupportedModel("The model builds a mask of its own, which may change scores.")
    if not getattr(module, "is_causal", True):
        raise UnsupportedModel("The model attends to later tokens: it is not a causal one.")
    if key.shape != value.shape:
        raise UnsupportedModel("Keys and values differ in width, which is not supported.")
    call = AttentionCall(
        layer=int(module.layer_idx),  # type: ignore[arg-type]
        query=query[0],
        key=key[0],
        value=value[0],
        scale=float(scaling if scaling is not None else query.shape[-1] ** -0.5),
        softcap=None if softcap is None else float(softcap),
        window=None if sliding_window is None else int(sliding_window),
        sink_logits=s_aux,
    )
    order: HeadOrdering | None = getattr(module, HEAD_ORDER, None)
    out = lectern.attend(call) if order is None else order.undo(lectern.attend(order.apply(call)))
    # (1, tokens, heads, head_dim), contiguous as some layers take a view of it.
    return out.transpose(0, 1)[None].contiguous(), None


class _StateHandle:
    """What the layers get of an `AttentionState`: of one class, whatever the state's is.

    Compiled layers are compiled anew for an argument of another class.
    """

    def __init__(self, state: AttentionState) -> None:
        self.attend = state.attend


@torch.inference_mode()
def forward(
    model: nn.Module,
    ids: Tensor,
    start: int | Tensor,
    state: AttentionState,
    *,
    keep: int | Tensor = 1,
) -> Tensor:
    """Run `ids` (tokens,) at positions start, start + 1, ... through the model.

    Args:
        start: as a tensor (1,) it may change while nobody on the host knows; as a tensor (tokens,)
            it is each token's own position.
        keep: how many of the last tokens logits are wanted of, or which tokens (kept,) int64.
    Returns: logits (kept, vocabulary) of these tokens, fp32.
    """
    if isinstance(start, Tensor) and len(start) == len(ids):
        positions = start
    else:
        positions = torch.arange(len(ids), device=ids.device) + start
    output = model(
        input_ids=ids[None],
        position_ids=positions[None],
        use_cache=False,
        logits_to_keep=keep,
        lectern=_StateHandle(state),
    )
    logits: Tensor = output.logits[0].float()
    return logits
