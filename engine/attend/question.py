"""The attention state of one question against one document."""

import logging
import math
from collections.abc import Iterable, Iterator
from functools import partial

import torch
from torch import Tensor

from engine.attend.alibi import attend_biased, linear_bias
from engine.attend.budget import BudgetController, ReadMeter, divide_prefill_budget
from engine.attend.clusters import (
    AttendedClusters,
    BudgetedClusterAttention,
    ClusterAttention,
    DeviceSelection,
    FullClusterAttention,
    FullSelection,
    Lookup,
    Selection,
)
from engine.attend.clusters_gpu import (
    ClusterAttentionOnGpu,
    budgeted_attention_for,
    on_gpu,
    sparse_attention_for,
)
from engine.attend.evidence import AttentionMass
from engine.attend.streaming import attend_streaming
from engine.document.budget import READ_ALL, Thresholds
from engine.document.cache import DocumentCache, LayerCache
from engine.fallbacks import Cause, Fallbacks, Part
from engine.kernels.prefill.attend_causal import attend_all, attend_causal
from engine.kernels.prefill.attend_dense import AttendDenseInputs, attend_dense, supports
from engine.kernels.shared.attend_keys import attend_keys, attention_weights
from engine.kernels.shared.merge_states import merge_states
from engine.kernels.shared.scores import visible
from engine.kernels.shared.state import State
from engine.model.attention import AttentionCall
from engine.model.sink_logits import with_sink_logits

log = logging.getLogger("lectern.decoding")


class QuestionState:
    """The attention state of one question: it owns the question's keys and values.

    The document's are only read.

    Args:
        document: the document's cache.
        prefill: how the passes of the question's prefill attend to clusters.
        decode: how every later pass does.
        mass: where attention mass is collected for evidence; None to collect none.
        meter: counts what is read; a fresh one if None.
        controller: holds decoding to a budget, and is then `decode` too; None where there is no
            budget to hold.
        kernels: whether what is attended to without a lookup may go through Triton kernels; where
            they fail, plain torch answers.
        fallbacks: where that is counted; None for nowhere.

    Attributes:
        num_prefill: how many of the question's own tokens are prefilled: passes up to them are its
            prefill, of which only the last one collects attention mass. None until the first pass,
            which then is the whole prefill.
    """

    def __init__(
        self,
        document: DocumentCache,
        prefill: ClusterAttention,
        decode: ClusterAttention,
        mass: AttentionMass | None = None,
        meter: ReadMeter | None = None,
        *,
        controller: BudgetController | None = None,
        kernels: bool = False,
        fallbacks: Fallbacks | None = None,
    ) -> None:
        self.document = document
        self.meter = meter or ReadMeter()
        self.mass = mass
        self.controller = controller
        self._prefill = prefill
        self._decode = decode
        self._kernels = kernels
        self._fallbacks = fallbacks
        self.num_prefill: int | None = None
        self._in_prefill = self._collects = True  # of the present pass
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []

    @property
    def position(self) -> int:
        """The position of the next token."""
        return self.document.num_tokens + self.num_own

    def can_share_rows(self, layer: int) -> bool:
        """Whether `attend_rows` may attend in a layer: while decoding, and without kernels."""
        if self._kernels or self.num_prefill is None:
            return False
        if self.controller is None and not isinstance(self._decode, FullClusterAttention):
            return False
        if layer > 0:  # then the pass has begun
            return not self._in_prefill
        return self.position - self.document.num_tokens >= self.num_prefill

    def pass_thresholds(self) -> Thresholds:
        """The thresholds of the present decoding pass; what reads all where there is no budget."""
        return READ_ALL if self.controller is None else self.controller.pass_thresholds()

    def append_own(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Take in the question's own keys and values of this pass in a layer.

        Whoever calls this attends to them and to the document, and counts what is read of it.

        Args:
            key, value: (kv_heads, tokens, head_dim).
        Returns: all that there are in the layer now, as `key` and `value`.
        """
        if layer == 0:
            self._begin_pass(key.shape[1])
        self._append(layer, key, value)
        return self._keys[layer], self._values[layer]

    def keys_and_values(self) -> Iterator[tuple[Tensor, Tensor]]:
        """By layer the question's own keys and values (kv_heads, tokens, head_dim)."""
        return zip(self._keys, self._values, strict=True)

    def take_over(self, keys: Iterable[Tensor], values: Iterable[Tensor]) -> None:
        """Take over the question's keys and values after passes that were taken elsewhere.

        Args:
            keys, values: by layer, of all its tokens so far (kv_heads, tokens, head_dim).
        """
        self._keys, self._values = list(keys), list(values)

    @property
    def num_own(self) -> int:
        """Tokens behind the document, whose keys and values it has."""
        return self._keys[0].shape[1] if self._keys else 0

    @property
    def prefill_reads_all(self) -> bool:
        """Whether passes of the prefill attend to all clustered tokens, without a lookup."""
        return isinstance(self._prefill, FullClusterAttention)

    @property
    def prefill_tokens(self) -> tuple[int, ...] | None:
        """By layer, the clustered tokens that a pass of the prefill selects over all heads.

        None where it keeps to thresholds, or reads all.
        """
        budgeted = self._prefill
        if isinstance(budgeted, ClusterAttentionOnGpu):
            budgeted = budgeted.fallback
        return budgeted.num_tokens if isinstance(budgeted, BudgetedClusterAttention) else None

    def collects_within(self, num_tokens: int) -> bool:
        """Whether a pass of so many tokens, the next one, collects attention mass."""
        return self.num_prefill is None or self.num_own + num_tokens >= self.num_prefill

    def take_prefill(self, keys: Iterable[Tensor], values: Iterable[Tensor]) -> None:
        """Take over a pass of the prefill that was taken elsewhere; the meter is told apart.

        Args:
            keys, values: by layer, of all tokens so far (kv_heads, tokens, head_dim).
        """
        self.take_over(keys, values)
        if self.num_prefill is None:
            self.num_prefill = self._keys[0].shape[1]

    def attend(self, call: AttentionCall) -> Tensor:
        """Attend to document and question; causality and windows are decided here.

        Returns: outputs (heads, tokens, head_dim) in the query's dtype.
        """
        if call.layer == 0:
            self._begin_pass(call.query.shape[1])
        self._append(call.layer, call.key, call.value)
        layer = self.document.layers[call.layer]
        if call.alibi is not None:
            self.meter.count(layer, FullSelection.of(layer))
            return self._attend_scoped(call, call.alibi.slopes, layer)
        rows = _fold(call.query, call.key.shape[0])
        dense = with_sink_logits(self._attend_dense(call, rows, layer), call.sink_logits)
        split, out = layer.num_retrieval, dense.out
        selection: Selection | DeviceSelection | FullSelection = FullSelection.of(layer)
        if split > 0:
            mine = State(out[:split], dense.lse[:split])
            attention = self._prefill if self._in_prefill else self._decode
            found = self._attend_retrieval(call, rows[:split], mine, layer, attention)
            selection, out = found.selection, found.state.out
            if layer.streaming is not None:
                out = torch.cat((out, dense.out[split:]))
        self.meter.count(layer, selection)
        return out.reshape(call.query.shape)

    def _attend_dense(self, call: AttentionCall, rows: Tensor, layer: LayerCache) -> State:
        """Attend to the keys that need no lookup.

        They are the question's own, a retrieval head's anchors and a streaming head's cache.
        """
        if self._kernels and supports(rows.shape[2]):
            try:
                return self._attend_dense_by_kernel(call, rows, layer)
            except torch.OutOfMemoryError:
                raise
            except Exception:  # whatever a compiler or a driver may raise: plain torch still works
                log.warning("attending without kernels: they failed", exc_info=True)
                self._kernels = False
                if self._fallbacks is not None:
                    self._fallbacks.count(Part.KERNELS, Cause.FAILED)
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

    def _attend_dense_by_kernel(
        self, call: AttentionCall, rows: Tensor, layer: LayerCache
    ) -> State:
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
            window=call.window,
            scale=call.scale,
            softcap=call.softcap,
        )
        return attend_dense(inputs)

    def _attend_retrieval(
        self,
        call: AttentionCall,
        rows: Tensor,
        dense: State,
        layer: LayerCache,
        attention: ClusterAttention,
    ) -> AttendedClusters:
        """Join what retrieval heads attend to without a lookup, `dense`, and clustered tokens."""
        group = call.query.shape[0] // call.key.shape[0]
        lookup = Lookup(rows, group, dense.lse, call.scale, call.softcap, call.layer, dense.out)
        found = AttendedClusters(dense, FullSelection.of(layer))
        if layer.has_clusters:
            found = attention.attend(lookup, layer)
            if not found.is_joint:
                joint = merge_states(dense, found.state, fused=self._kernels)
                found = AttendedClusters(joint, found.selection)
        if self.mass is not None and self._collects and layer.window is None:
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
            if self.mass is not None and self._collects and len(held) == layer.num_tokens:
                last, lse = call.query[heads, -1:], state.lse[:, -1:]
                bias = linear_bias(slopes[heads], asked[-1:], held)
                weights = attention_weights(last, part.keys, lse, scale=call.scale, bias=bias)
                self.mass.add_weights(weights, held.expand(len(heads), -1))
        return out

    def _begin_pass(self, num_tokens: int) -> None:
        """Begin a pass of so many tokens."""
        held = self.num_own
        if self.num_prefill is None:
            self.num_prefill = num_tokens
        self._in_prefill = held < self.num_prefill
        self._collects = self.collects_within(num_tokens)
        self.meter.begin_pass()
        if self._in_prefill:
            self.meter.num_prefills = self.meter.num_passes

    def _append(self, layer: int, key: Tensor, value: Tensor) -> None:
        if len(self._keys) <= layer:
            self._keys.append(key)
            self._values.append(value)
            return
        self._keys[layer] = torch.cat((self._keys[layer], key), dim=1)
        self._values[layer] = torch.cat((self._values[layer], value), dim=1)

    def _attend_question(self, call: AttentionCall, rows: Tensor) -> State:
        keys, values = self._keys[call.layer], self._values[call.layer]
        num_queries = call.query.shape[1]
        mask = self._own_mask(num_queries, keys.shape[1], call)
        if mask is None:
            attend = attend_all if num_queries == 1 else attend_causal
            own = attend(call.query, keys, values, scale=call.scale, softcap=call.softcap)
            return State(_fold(own.out, len(keys)), own.lse.reshape(len(keys), -1))
        mask = mask.repeat(rows.shape[1] // num_queries, 1)  # (group x tokens, keys)
        return attend_keys(rows, keys, values, scale=call.scale, softcap=call.softcap, mask=mask)

    def _attend_anchors(self, call: AttentionCall, rows: Tensor, layer: LayerCache) -> State:
        """Attend to sinks and tail, or in a sliding-window layer to what its window still shows."""
        anchors, mask = slice(0, layer.num_anchors), None
        if layer.window is not None:
            num_keys, num_queries = self._keys[call.layer].shape[1], call.query.shape[1]
            # Every head holds the same window, whose last token stands right before the question.
            held = torch.arange(-layer.num_anchors, 0, device=rows.device)
            asked = self._own_places(num_keys, rows.device)[num_keys - num_queries :]
            mask = visible(asked, held, layer.window).repeat(rows.shape[1] // num_queries, 1)
        return attend_keys(
            rows,
            layer.keys[:, anchors],
            layer.values[:, anchors],
            scale=call.scale,
            softcap=call.softcap,
            mask=mask,
        )

    def _own_places(self, num_keys: int, device: torch.device) -> Tensor:
        """The places of the question's own tokens behind the document (keys,) int64."""
        return torch.arange(num_keys, device=device)

    def _own_mask(self, num_queries: int, num_keys: int, call: AttentionCall) -> Tensor | None:
        """Which own keys the last tokens see: (queries, keys) bool; None for plain causality."""
        if call.window is None:
            return None
        places = self._own_places(num_keys, call.query.device)
        return visible(places[num_keys - num_queries :], places, call.window)


def open_question(
    document: DocumentCache,
    budget: float,
    mass: AttentionMass | None = None,
    *,
    kernels: bool = True,
    fallbacks: Fallbacks | None = None,
) -> QuestionState:
    """Make the attention state that keeps to a budget.

    Args:
        budget: in (0, 1], at or above the document's floor.
        mass: where attention mass is collected for evidence; None to collect none.
        kernels: whether a document on a GPU may be attended to by Triton kernels.
        fallbacks: where it is counted if it is not; None for nowhere.
    """
    fused = kernels and on_gpu(document)
    if budget >= 1.0:
        return QuestionState(
            document,
            FullClusterAttention(),
            FullClusterAttention(),
            mass,
            kernels=fused,
            fallbacks=fallbacks,
        )
    meter = ReadMeter()
    attention = sparse_attention_for(document, kernels=kernels, fallbacks=fallbacks)
    thresholds = document.curves.prefill.at(budget)
    if document.curves.split.shares:
        divided = divide_prefill_budget(document, budget)
        prefill = budgeted_attention_for(
            document, divided, thresholds, kernels=kernels, fallbacks=fallbacks
        )
    else:  # it was read by an earlier version, or its layers have nothing to choose from
        prefill = attention(thresholds)
    controller = BudgetController(document.curves.decode, budget, attention, meter)
    return QuestionState(
        document,
        prefill,
        controller,
        mass,
        meter,
        controller=controller,
        kernels=fused,
        fallbacks=fallbacks,
    )


def _fold(query: Tensor, kv_heads: int) -> Tensor:
    """(heads, tokens, head_dim) to (kv_heads, group x tokens, head_dim)."""
    return query.reshape(kv_heads, -1, query.shape[-1])
