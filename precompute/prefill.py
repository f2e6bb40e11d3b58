"""Prefill: the document goes through the model once, in chunks, and leaves its keys and values.

Retrieval heads see all that was read. Streaming heads see sinks and window from the first chunk on,
so that their time is O(tokens x window) and what they keep does not grow (DuoAttention, section 2.3
and figure 5). No head sees a compensation token here: it stands for what is dropped in the end.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from engine.config import SCOPE_EPSILON
from engine.document.cache import ScopedHeads, StreamingCache
from engine.kernels.prefill.attend_causal import attend_causal
from engine.kernels.prefill.attend_causal_library import CUDNN_CHUNK
from engine.model.attention import AttentionCall, forward
from engine.model.finite import FiniteLayers
from engine.model.loader import LoadedModel
from engine.model.sink_logits import with_sink_logits
from precompute.alibi_prefill import AlibiPrefill
from precompute.prefill_dtype import matmul_in
from precompute.streaming_prefill import StreamingPrefill

# On a CPU a chunk of more tokens is not read faster, and nobody could stop it meanwhile.
MOST_CPU_TOKENS = 2048
MOST_CPU_SCORES = 1 << 25  # of queries and keys at a time: about a third of a second
MOST_GPU_OPERATIONS = 10**13  # of attention at a time: some 15 ms


@dataclass(frozen=True)
class PrefilledLayer:
    """What reading leaves of a layer.

    Attributes:
        keys, values: (kv_heads, tokens, head_dim), keys after RoPE, in document order: all tokens
            of the retrieval heads, or the last ones of every head if the layer has a window.
        streaming: what the streaming heads keep; None if there are none.
        scoped: what heads with linear biases keep, which are then all there are.
    """

    keys: Tensor
    values: Tensor
    streaming: StreamingCache | None = None
    scoped: tuple[ScopedHeads, ...] = ()


class _Layer(Protocol):
    """A layer while it reads."""

    def attend(self, call: AttentionCall) -> Tensor:
        """Take the chunk's keys and values in, and attend to all that its tokens may see."""
        ...

    def prefilled(self) -> PrefilledLayer:
        """What is left when the document has been read."""
        ...


class _Windowed:
    """A layer with a sliding window."""

    def __init__(self, stream: StreamingPrefill) -> None:
        self._stream = stream

    def attend(self, call: AttentionCall) -> Tensor:
        return self._stream.attend(call)

    def prefilled(self) -> PrefilledLayer:
        kept = self._stream.cache(compensation=False)
        return PrefilledLayer(kept.keys, kept.values)


class _Retrieval:
    """A layer whose heads all read the whole document; `keys` and `values` are to be filled."""

    def __init__(self, keys: Tensor, values: Tensor, check: Callable[[], None]) -> None:
        self._keys, self._values = keys, values
        self._filled = 0
        self._check = check

    def attend(self, call: AttentionCall) -> Tensor:
        start, self._filled = self._filled, self._filled + call.key.shape[1]
        self._keys[:, start : self._filled] = call.key
        self._values[:, start : self._filled] = call.value
        block = _block_tokens(call.query, self._filled)
        outs = [
            self._attend_block(call, start, call.query[:, first : first + block], first)
            for first in range(0, call.query.shape[1], block)
        ]
        return outs[0] if len(outs) == 1 else torch.cat(outs, dim=1)

    def _attend_block(self, call: AttentionCall, start: int, query: Tensor, first: int) -> Tensor:
        """Attend as the chunk's tokens from `first` on do, to all that was read up to the last."""
        self._check()
        end = start + first + query.shape[1]
        keys, values = self._keys[:, :end], self._values[:, :end]
        state = attend_causal(query, keys, values, scale=call.scale, softcap=call.softcap)
        return with_sink_logits(state, call.sink_logits).out

    def prefilled(self) -> PrefilledLayer:
        return PrefilledLayer(self._keys, self._values)


class _Dual:
    """A layer with streaming heads, behind its `num_retrieval` retrieval heads."""

    def __init__(
        self,
        retrieval: _Retrieval,
        num_retrieval: int,
        stream: StreamingPrefill,
        *,
        compensation: bool,
    ) -> None:
        self._retrieval = retrieval
        self._num_retrieval = num_retrieval
        self._stream = stream
        self._compensation = compensation

    def attend(self, call: AttentionCall) -> Tensor:
        split = self._num_retrieval
        if split == 0:
            return self._stream.attend(call)
        far = self._retrieval.attend(_heads(call, slice(0, split)))
        return torch.cat((far, self._stream.attend(_heads(call, slice(split, None)))))

    def prefilled(self) -> PrefilledLayer:
        kept = self._stream.cache(compensation=self._compensation)
        return replace(self._retrieval.prefilled(), streaming=kept)


class _Scoped:
    """A layer with linear biases: none of its heads is clustered, `nothing` is."""

    def __init__(self, nothing: Tensor, scopes: AlibiPrefill) -> None:
        self._nothing = nothing
        self._scopes = scopes

    def attend(self, call: AttentionCall) -> Tensor:
        return self._scopes.attend(call)

    def prefilled(self) -> PrefilledLayer:
        return PrefilledLayer(self._nothing, self._nothing, scoped=self._scopes.cache())


class _PrefillState:
    """All layers, each reading in its way."""

    def __init__(
        self,
        model: LoadedModel,
        num_tokens: int,
        epsilon: float,
        check: Callable[[], None],
        dtype: torch.dtype,
    ) -> None:
        self._layers: list[_Layer] = []
        for index in range(model.spec.num_layers):
            check()  # memory for a whole long document takes long, too
            self._layers.append(_layer(model, index, num_tokens, epsilon, check, dtype))
        self._check = check
        self._dtype, self._kept_dtype = dtype, model.dtype
        self.finite = FiniteLayers(model.spec.num_layers, model.device)

    def attend(self, call: AttentionCall) -> Tensor:
        self._check()
        self.finite.note(call.layer, call.key, call.value)
        with torch.autocast(call.query.device.type, enabled=False):  # kernels know what to round
            out = self._layers[call.layer].attend(_in_dtype(call, self._dtype))
        return out.to(call.query.dtype)

    def take_layers(self) -> Iterator[PrefilledLayer]:
        """What the layers are left with, each as it is taken; this state gives them up."""
        while self._layers:
            yield _kept(self._layers.pop(0).prefilled(), self._kept_dtype)


def _layer(
    model: LoadedModel,
    index: int,
    num_tokens: int,
    epsilon: float,
    check: Callable[[], None],
    dtype: torch.dtype,
) -> _Layer:
    spec, plan = model.spec.layers[index], model.plan

    def empty(heads: int, tokens: int) -> Tensor:
        shape = (heads, tokens, spec.head_dim)
        return torch.empty(shape, dtype=dtype, device=model.device)

    if spec.alibi is not None:
        scopes = AlibiPrefill(empty(spec.num_kv_heads, 0), spec.alibi, num_tokens, epsilon)
        return _Scoped(empty(0, num_tokens), scopes)
    if spec.window is not None:
        return _Windowed(
            StreamingPrefill(empty(spec.num_kv_heads, 0), num_sinks=0, window=spec.window)
        )
    num_retrieval = plan.num_retrieval(index)
    keys, values = (empty(num_retrieval, num_tokens) for _ in range(2))
    retrieval = _Retrieval(keys, values, check)
    if num_retrieval == spec.num_kv_heads:
        return retrieval
    stream = StreamingPrefill(
        empty(spec.num_kv_heads - num_retrieval, 0), plan.num_sinks, plan.window_for(num_tokens)
    )
    return _Dual(retrieval, num_retrieval, stream, compensation=plan.compensation)


def _in_dtype(call: AttentionCall, dtype: torch.dtype) -> AttentionCall:
    query, key, value = (part.to(dtype) for part in (call.query, call.key, call.value))
    return replace(call, query=query, key=key, value=value)


def _kept(layer: PrefilledLayer, dtype: torch.dtype) -> PrefilledLayer:
    """A layer in the dtype in which it is kept."""
    streaming, scoped = layer.streaming, layer.scoped
    if streaming is not None:
        keys, values = streaming.keys.to(dtype), streaming.values.to(dtype)
        streaming = replace(streaming, keys=keys, values=values)
    scoped = tuple(replace(s, keys=s.keys.to(dtype), values=s.values.to(dtype)) for s in scoped)
    return PrefilledLayer(layer.keys.to(dtype), layer.values.to(dtype), streaming, scoped)


def _block_tokens(query: Tensor, num_keys: int) -> int:
    """How many of a chunk's tokens attend at a time, so that a check need not wait long."""
    heads, _, head_dim = query.shape
    if query.device.type == "cpu":
        return max(16, MOST_CPU_SCORES // max(1, heads * num_keys))
    most = MOST_GPU_OPERATIONS // max(1, 4 * heads * head_dim * num_keys)
    return max(CUDNN_CHUNK, most // CUDNN_CHUNK * CUDNN_CHUNK)


def _heads(call: AttentionCall, kv_heads: slice) -> AttentionCall:
    """The part of a call that some adjoining KV heads and their query heads answer."""
    group = call.query.shape[0] // call.key.shape[0]
    first, last, _ = kv_heads.indices(call.key.shape[0])
    queries = slice(first * group, last * group)
    return replace(
        call,
        query=call.query[queries],
        key=call.key[kv_heads],
        value=call.value[kv_heads],
        sink_logits=None if call.sink_logits is None else call.sink_logits[queries],
    )


def prefill(
    model: LoadedModel,
    ids: Tensor,
    chunk_tokens: int | Callable[[], int],
    progress: Callable[[int], None],
    epsilon: float = SCOPE_EPSILON,
    check: Callable[[], None] = lambda: None,
    dtype: torch.dtype | None = None,
) -> tuple[PrefilledLayer, ...]:
    """Run a document (tokens,) through the model in chunks.

    On a CPU chunks have at most `MOST_CPU_TOKENS`, and each layer takes them in blocks, so that
    `check` is called often enough; what is computed is the same.

    Args:
        chunk_tokens: tokens of a chunk, or what tells them before each chunk.
        progress: told the number of tokens done after each chunk; may raise to stop.
        epsilon: the attention weight that heads with linear biases may leave out, see
            `engine.model.alibi.attention_scope`.
        check: called within each chunk, before a layer attends; may raise to stop.
        dtype: in which matrices are multiplied; None for the model's.
    Returns: what each layer keeps, on the model's device in its dtype.
    Raises: NonFiniteNumbers after a chunk in which some key, value or logit is infinite or
        undefined.
    """
    dtype = dtype or model.dtype
    state = _PrefillState(model, len(ids), epsilon, check, dtype)
    most = MOST_CPU_TOKENS if model.device.type == "cpu" else len(ids)
    start = 0
    while start < len(ids):
        num_tokens = chunk_tokens if isinstance(chunk_tokens, int) else chunk_tokens()
        chunk = ids[start : start + min(num_tokens, most)].to(model.device)
        with matmul_in(dtype, model):
            logits = forward(model.model, chunk, start, state)
        state.finite.check(f"in tokens {start} to {start + len(chunk) - 1}", logits)
        start += len(chunk)
        progress(start)
    return tuple(state.take_layers())
