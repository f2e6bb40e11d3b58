"""The attention state of one question against one document."""

import logging
import math
from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from engine.attend.clusters import AttendedClusters, ClusterAttention
from engine.attend.evidence import AttentionMass
from engine.attend.lookup import Lookup
from engine.attend.read_meter import ReadMeter
from engine.document.cache import DocumentCache, LayerCache, StreamingCache
from engine.kernels.prefill.attend_dense import AttendDenseInputs, attend_dense, supports
from engine.kernels.shared.attend_keys import attend_keys, attention_weights
from engine.kernels.shared.merge_states import merge_states
from engine.kernels.shared.state import State
from engine.model.alibi import attend_biased, linear_bias
from engine.model.attention import AttentionCall

log = logging.getLogger("lectern.decoding")


class QuestionState:
    """Owns the question's own keys and values; the document's are only read.

    Args:
        document: the document's cache.
        prefill: how far the question's prefill, the first forward pass, reaches.
        decode: how far every later pass reaches.
        mass: where attention mass is collected for evidence; None to collect none.
        meter: counts what is read; a fresh one if None.
        kernels: whether what is attended to without a lookup may go through kernels of our own;
            where they fail it goes as without them.
    """

    def __init__(
        self,
        document: DocumentCache,
        prefill: ClusterAttention,
        decode: ClusterAttention,
        mass: AttentionMass | None = None,
        meter: ReadMeter | None = None,
        *,
        kernels: bool = False,
    ) -> None:
        self.document = document
        self.meter = meter or ReadMeter()
        self.mass = mass
        self.decode = decode
        self._prefill = prefill
        self._kernels = kernels
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []

    @property
    def position(self) -> int:
        """The position of the next token."""
        return self.document.num_tokens + (self._keys[0].shape[1] if self._keys else 0)

    def held(self) -> Iterator[tuple[Tensor, Tensor]]:
        """By layer the question's own keys and values (kv_heads, tokens, head_dim)."""
        return zip(self._keys, self._values, strict=True)

    def attend(self, call: AttentionCall) -> Tensor:
        """Attend to document and question; causality and windows are decided here."""
        if call.layer == 0:
            self.meter.begin_pass()
        first_pass = len(self._keys) <= call.layer
        self._append(call)
        layer = self.document.layers[call.layer]
        if call.alibi is not None:
            self.meter.count(layer, None)
            return self._attend_scoped(call, call.alibi.slopes, layer)
        rows = _fold(call.query, call.key.shape[0])
        around = self._attend_around(call, rows, layer)
        split, selection, out = layer.num_retrieval, None, around.out
        if split > 0:
            mine = State(out[:split], around.lse[:split])
            reach = self._prefill if first_pass else self.decode
            state, selection = self._attend_retrieval(call, rows[:split], mine, layer, reach)
            out = state.out if layer.streaming is None else torch.cat((state.out, out[split:]))
        self.meter.count(layer, selection)
        return out.reshape(call.query.shape)

    def _attend_around(self, call: AttentionCall, rows: Tensor, layer: LayerCache) -> State:
        """Attend to what is seen without a lookup: the question, anchors, what streaming keeps."""
        windowed = layer.window is not None or call.window is not None
        if self._kernels and not windowed and supports(rows.shape[2]):
            try:
                return self._attend_dense(call, rows, layer)
            except torch.OutOfMemoryError:
                raise
            except Exception:  # whatever a compiler or a driver may raise: the other way works
                log.warning("attending without kernels: they failed", exc_info=True)
                self._kernels = False
        own, split = self._attend_question(call, rows), layer.num_retrieval
        parts: list[State] = []
        if split > 0:
            anchors = self._attend_anchors(call, rows[:split], layer)
            parts.append(merge_states(State(own.out[:split], own.lse[:split]), anchors))
        if layer.streaming is not None:
            kept = attend_streaming(call, rows[split:], layer.streaming)
            parts.append(merge_states(State(own.out[split:], own.lse[split:]), kept))
        if len(parts) == 1:
            return parts[0]
        return State(torch.cat([p.out for p in parts]), torch.cat([p.lse for p in parts]))

    def _attend_dense(self, call: AttentionCall, rows: Tensor, layer: LayerCache) -> State:
        """The same in one kernel."""
        anchors, kept = slice(0, layer.num_anchors), layer.streaming
        dropped = 0 if kept is None else kept.num_dropped
        inputs = AttendDenseInputs(
            query=rows.contiguous(),
            num_tokens=call.query.shape[1],
            question_keys=self._keys[call.layer],
            question_values=self._values[call.layer],
            anchor_keys=layer.keys[:, anchors],
            anchor_values=layer.values[:, anchors],
            streaming_keys=None if kept is None else kept.keys,
            streaming_values=None if kept is None else kept.values,
            log_last_weight=math.log(dropped) if dropped else 0.0,
            scale=call.scale,
            softcap=call.softcap,
        )
        return attend_dense(inputs)

    def _attend_retrieval(
        self,
        call: AttentionCall,
        rows: Tensor,
        around: State,
        layer: LayerCache,
        reach: ClusterAttention,
    ) -> AttendedClusters:
        """Join what retrieval heads see anyway, `around`, and clustered tokens."""
        group = call.query.shape[0] // call.key.shape[0]
        lookup = Lookup(rows, group, around.lse, call.scale, call.softcap)
        found = AttendedClusters(around, None)
        if layer.has_clusters:
            reached = reach.attend(lookup, layer)
            joint = merge_states(around, reached.state, fused=self._kernels)
            found = AttendedClusters(joint, reached.selection)
        if self.mass is not None and layer.window is None:
            self.mass.add(lookup, layer, found.selection, found.state.lse)
        return found

    def _attend_scoped(self, call: AttentionCall, slopes: Tensor, layer: LayerCache) -> Tensor:
        """Attend with linear biases: to the question, and to what each head's scope covers."""
        keys, values = self._keys[call.layer], self._values[call.layer]
        own = torch.arange(keys.shape[1], device=keys.device) + layer.num_tokens  # positions
        asked = own[-call.query.shape[1] :]
        out = torch.empty_like(call.query)
        for part in layer.scoped:
            heads, held = list(part.heads), part.positions(layer.num_tokens)
            attend = partial(
                attend_biased,
                call.query[heads],
                scale=call.scale,
                slopes=slopes[heads],
                asked=asked,
            )
            near = attend(keys=keys[heads], values=values[heads], held=own)
            state = merge_states(near, attend(keys=part.keys, values=part.values, held=held))
            out[heads] = state.out
            if self.mass is not None and len(held) == layer.num_tokens:
                last, lse = call.query[heads, -1:], state.lse[:, -1:]
                bias = linear_bias(slopes[heads], asked[-1:], held)
                weights = attention_weights(last, part.keys, lse, scale=call.scale, bias=bias)
                self.mass.add_weights(weights, held.expand(len(heads), -1))
        return out

    def _append(self, call: AttentionCall) -> None:
        if len(self._keys) <= call.layer:
            self._keys.append(call.key)
            self._values.append(call.value)
            return
        self._keys[call.layer] = torch.cat((self._keys[call.layer], call.key), dim=1)
        self._values[call.layer] = torch.cat((self._values[call.layer], call.value), dim=1)

    def _attend_question(self, call: AttentionCall, rows: Tensor) -> State:
        keys, values = self._keys[call.layer], self._values[call.layer]
        num_keys, num_queries = keys.shape[1], call.query.shape[1]
        at = torch.arange(num_keys, device=keys.device)
        mask = visible(at[num_keys - num_queries :], at, call.window)
        mask = mask.repeat(rows.shape[1] // num_queries, 1)  # (group x tokens, keys)
        return attend_keys(rows, keys, values, scale=call.scale, softcap=call.softcap, mask=mask)

    def _attend_anchors(self, call: AttentionCall, rows: Tensor, layer: LayerCache) -> State:
        """Attend to sinks and tail, or in a sliding-window layer to what its window still shows."""
        anchors, mask = slice(0, layer.num_anchors), None
        if layer.window is not None:
            num_keys, num_queries = self._keys[call.layer].shape[1], call.query.shape[1]
            # Every head holds the same window, whose last token stands right before the question.
            held = torch.arange(-layer.num_anchors, 0, device=rows.device)
            asked = torch.arange(num_keys - num_queries, num_keys, device=rows.device)
            mask = visible(asked, held, layer.window).repeat(rows.shape[1] // num_queries, 1)
        return attend_keys(
            rows,
            layer.keys[:, anchors],
            layer.values[:, anchors],
            scale=call.scale,
            softcap=call.softcap,
            mask=mask,
        )


def attend_streaming(call: AttentionCall, rows: Tensor, cache: StreamingCache) -> State:
    """Attend to what streaming heads keep of the document: sinks, window and compensation token.

    Every token of the question sees all of it: the question is short beside the window.

    Args:
        rows: queries of the streaming heads (kv_heads, group x tokens, head_dim).
    Source: RazorAttention, equation 5.
    """

    def attend(part: slice) -> State:
        keys, values = cache.keys[:, part], cache.values[:, part]
        return attend_keys(rows, keys, values, scale=call.scale, softcap=call.softcap)

    kept = attend(slice(0, cache.num_kept))
    if cache.num_dropped == 0:
        return kept
    mean = attend(slice(cache.num_kept, None))
    return merge_states(kept, State(mean.out, mean.lse + math.log(cache.num_dropped)))


def visible(queries: Tensor, keys: Tensor, window: int | None) -> Tensor:
    """Which positions see which: (queries, keys) bool, causal and within the window."""
    distance = queries[:, None] - keys[None, :]
    return (distance >= 0) if window is None else (distance >= 0) & (distance < window)


def _fold(query: Tensor, kv_heads: int) -> Tensor:
    """(heads, tokens, head_dim) to (kv_heads, group x tokens, head_dim)."""
    return query.reshape(kv_heads, -1, query.shape[-1])
