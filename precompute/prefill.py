"""Prefill: the document goes through the model once, in chunks, and leaves its keys and values."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from engine.attention import AttentionCall, forward
from engine.kernels.attend_keys import attend_keys
from engine.model import LoadedModel
from engine.question import visible


@dataclass(frozen=True)
class PrefilledLayer:
    """Keys after RoPE and values of a layer, (kv_heads, tokens, head_dim), in document order."""

    keys: Tensor
    values: Tensor


class _PrefillState:
    """Attends causally to everything read so far, and keeps it."""

    def __init__(self, model: LoadedModel, num_tokens: int) -> None:
        self._filled = 0
        self._keys, self._values = [], []
        for layer in model.spec.layers:
            shape = (layer.num_kv_heads, num_tokens, layer.head_dim)
            self._keys.append(torch.empty(shape, dtype=model.dtype, device=model.device))
            self._values.append(torch.empty_like(self._keys[-1]))

    def attend(self, call: AttentionCall) -> Tensor:
        """Store the chunk's keys and values, then attend to all that its tokens may see."""
        start, end = self._filled, self._filled + call.key.shape[1]
        self._keys[call.layer][:, start:end] = call.key
        self._values[call.layer][:, start:end] = call.value
        first = 0 if call.window is None else max(0, start - call.window + 1)
        keys = self._keys[call.layer][:, first:end]
        values = self._values[call.layer][:, first:end]
        at = torch.arange(first, end, device=keys.device)
        mask = visible(at[start - first :], at, call.window)  # (tokens, keys)
        if call.layer == len(self._keys) - 1:
            self._filled = end
        return _attend(call, keys, values, mask)

    def layers(self) -> tuple[PrefilledLayer, ...]:
        """What was kept."""
        return tuple(map(PrefilledLayer, self._keys, self._values))


def _attend(call: AttentionCall, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    group = call.query.shape[0] // keys.shape[0]
    if call.softcap is None:
        return scaled_dot_product_attention(
            call.query[None],
            keys[None],
            values[None],
            attn_mask=mask,
            scale=call.scale,
            enable_gqa=group > 1,
        )[0]
    rows = call.query.reshape(keys.shape[0], -1, keys.shape[2])
    state = attend_keys(
        rows, keys, values, scale=call.scale, softcap=call.softcap, mask=mask.repeat(group, 1)
    )
    return state.out.reshape(call.query.shape)


def prefill(
    model: LoadedModel, ids: Tensor, chunk_tokens: int, progress: Callable[[int], None]
) -> tuple[PrefilledLayer, ...]:
    """Run a document (tokens,) through the model in chunks.

    Args:
        progress: told the number of tokens done after each chunk; may raise to stop.
    Returns: keys and values per layer, on the model's device in its dtype.
    """
    state = _PrefillState(model, len(ids))
    for start in range(0, len(ids), chunk_tokens):
        chunk = ids[start : start + chunk_tokens].to(model.device)
        forward(model.model, chunk, start, state)
        progress(start + len(chunk))
    return state.layers()
