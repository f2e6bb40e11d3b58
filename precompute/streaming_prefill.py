"""Streaming attention over a text that comes in chunks, in memory that does not grow with it."""

from typing import TypedDict

import torch
from torch import Tensor

from engine.document.cache import StreamingCache
from engine.kernels.prefill.attend_causal import attend_all, attend_causal, attend_window
from engine.kernels.shared.merge_states import merge_states
from engine.model.attention import AttentionCall
from engine.model.sink_logits import with_sink_logits


class _Terms(TypedDict):
    scale: float
    softcap: float | None


class StreamingPrefill:
    """What heads that see sinks and a window keep of what they have read.

    A token at position t sees the sinks, which are the text's first `num_sinks` tokens, and the
    tokens from t - window + 1 to t; how the text is cut into chunks changes nothing. Source:
    DuoAttention, section 2.1.

    Args:
        nothing: no keys yet (kv_heads, 0, head_dim), in dtype and device like those to come.
        num_sinks: may be 0: then this is a sliding window.
        window: tokens that a token sees, itself included.
    """

    def __init__(self, nothing: Tensor, num_sinks: int, window: int) -> None:
        self._num_sinks = num_sinks
        self._window = window
        self._keys = self._values = nothing
        self._key_sum = self._value_sum = nothing.sum(dim=1, dtype=torch.float32)
        self._num_dropped = 0

    def attend(self, call: AttentionCall) -> Tensor:
        """Take the chunk's keys and values in, and attend to what each of its tokens sees."""
        keys = torch.cat((self._keys, call.key), dim=1)
        values = torch.cat((self._values, call.value), dim=1)
        self._keep(keys, values)
        return self._attend(call, keys, values)

    def cache(self, *, compensation: bool) -> StreamingCache:
        """What is kept, and if asked for the mean of what was dropped (RazorAttention, eq. 4)."""
        keys, values = self._keys, self._values
        if not compensation or self._num_dropped == 0:
            return StreamingCache(keys.contiguous(), values.contiguous(), 0)
        mean_key, mean_value = (
            (total / self._num_dropped)[:, None].to(keys.dtype)
            for total in (self._key_sum, self._value_sum)
        )
        keys, values = torch.cat((keys, mean_key), dim=1), torch.cat((values, mean_value), dim=1)
        return StreamingCache(keys, values, self._num_dropped)

    def _keep(self, keys: Tensor, values: Tensor) -> None:
        """Drop what has left the window, and add it up."""
        excess = max(0, keys.shape[1] - self._num_sinks - self._window)
        first, last = self._num_sinks, self._num_sinks + excess
        self._key_sum = self._key_sum + _sum(keys, first, last)
        self._value_sum = self._value_sum + _sum(values, first, last)
        self._num_dropped += excess
        self._keys, self._values = _without(keys, first, last), _without(values, first, last)

    def _attend(self, call: AttentionCall, keys: Tensor, values: Tensor) -> Tensor:
        """Attend over what was kept and, right behind it, the chunk.

        Up to position num_sinks + window, sinks and window together are all that was read, and
        attention is causal. From there on they lie apart, and every token sees as many.
        """
        terms = _Terms(scale=call.scale, softcap=call.softcap)
        num_tokens, num_keys = call.query.shape[1], keys.shape[1]
        whole = self._num_sinks + self._window
        early = min(max(0, whole - (num_keys - num_tokens)), num_tokens)
        states = []
        if early > 0:
            seen = slice(0, num_keys - num_tokens + early)
            query = call.query[:, :early]
            states.append(attend_causal(query, keys[:, seen], values[:, seen], **terms))
        if early < num_tokens:
            sinks, near = slice(0, self._num_sinks), slice(self._num_sinks, None)
            query = call.query[:, early:]
            state = attend_window(
                query, keys[:, near], values[:, near], window=self._window, **terms
            )
            if self._num_sinks > 0:
                far = attend_all(query, keys[:, sinks], values[:, sinks], **terms)
                state = merge_states(far, state)
            states.append(state)
        outs = [with_sink_logits(state, call.sink_logits).out for state in states]
        return outs[0] if len(outs) == 1 else torch.cat(outs, dim=1)


def _sum(tensor: Tensor, first: int, last: int) -> Tensor:
    return tensor[:, first:last].sum(dim=1, dtype=torch.float32)


def _without(tensor: Tensor, first: int, last: int) -> Tensor:
    return torch.cat((tensor[:, :first], tensor[:, last:]), dim=1)
