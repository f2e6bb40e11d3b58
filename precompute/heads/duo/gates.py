"""Gated attention: each KV head between full and streaming attention."""

import torch
from torch import Tensor

from engine.model.attention import AttentionCall
from precompute.heads.duo.blockwise import (
    attend_causal_with_gradients,
    attend_streaming_blockwise,
    streaming_bias,
)


class GatedDocumentState:
    """Attention of a whole text, gate x full + (1 - gate) x streaming, differentiable.

    It keeps nothing of a call, so that a layer can be computed once more for its gradient.

    Args:
        gates: (layers, kv_heads) in [0, 1], or (layers, 1) for a gate a layer; None for full
            attention alone.
        num_tokens: of the text.
        num_sinks, window: what streaming attention sees.
    Source: DuoAttention, section 2.2.
    """

    def __init__(
        self, gates: Tensor | None, num_tokens: int, *, num_sinks: int, window: int
    ) -> None:
        self._gates = gates
        self._num_sinks = num_sinks
        if gates is not None:
            self._bias = streaming_bias(num_tokens, num_sinks, window, gates.device)

    def attend(self, call: AttentionCall) -> Tensor:
        """Mix both kinds of attention.

        A layer with a sliding window sees nothing far away in either kind: it has no gate.
        """
        if call.window is not None:
            return _attend_window(call, call.window)
        full = attend_causal_with_gradients(
            call.query, call.key, call.value, scale=call.scale, softcap=call.softcap
        )
        if self._gates is None:
            return full
        streaming = _attend_near(call, self._bias, self._num_sinks)
        return mix(self._gates[call.layer], full, streaming, call.key.shape[0])


def mix(gates: Tensor, full: Tensor, streaming: Tensor, kv_heads: int) -> Tensor:
    """Gate x full + (1 - gate) x streaming.

    Args:
        gates: (kv_heads,) or (1,) for all.
        full, streaming: (heads, tokens, head_dim).
    """
    gates = gates.expand(kv_heads).repeat_interleave(len(full) // kv_heads)
    return torch.lerp(streaming, full, gates.to(full.dtype)[:, None, None])


def _attend_window(call: AttentionCall, window: int) -> Tensor:
    window = min(window, call.query.shape[1])
    bias = streaming_bias(call.query.shape[1], 0, window, call.query.device)
    return _attend_near(call, bias, 0)


def _attend_near(call: AttentionCall, bias: Tensor, num_sinks: int) -> Tensor:
    return attend_streaming_blockwise(
        call.query,
        call.key,
        call.value,
        bias,
        num_sinks=num_sinks,
        scale=call.scale,
        softcap=call.softcap,
    )
