"""The attention state of one question against one document."""

import torch
from torch import Tensor

from engine.attention import AttentionCall
from engine.document import DocumentCache, LayerCache
from engine.evidence import AttentionMass
from engine.kernels.attend_keys import attend_keys
from engine.kernels.merge_states import merge_states
from engine.kernels.state import State
from engine.meter import Meter
from engine.reach import Reach
from engine.selection import Lookup


class QuestionState:
    """Owns the question's own keys and values; the document's are only read.

    Args:
        document: the document's cache.
        prefill: how far the question's prefill, the first forward pass, reaches.
        decode: how far every later pass reaches.
        mass: where attention mass is collected for evidence; None to collect none.
        meter: counts what is read; a fresh one if None.
    """

    def __init__(
        self,
        document: DocumentCache,
        prefill: Reach,
        decode: Reach,
        mass: AttentionMass | None = None,
        meter: Meter | None = None,
    ) -> None:
        self.document = document
        self.meter = meter or Meter()
        self._reach = (prefill, decode)
        self._mass = mass
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []

    @property
    def position(self) -> int:
        """The position of the next token."""
        return self.document.num_tokens + (self._keys[0].shape[1] if self._keys else 0)

    def attend(self, call: AttentionCall) -> Tensor:
        """Attend to document and question; causality and windows are decided here."""
        if call.layer == 0:
            self.meter.begin_pass()
        first_pass = len(self._keys) <= call.layer
        self._append(call)
        layer = self.document.layers[call.layer]
        rows = _fold(call.query, call.key.shape[0])
        around = merge_states(
            self._attend_question(call, rows), self._attend_anchors(call, rows, layer)
        )
        lookup = Lookup(
            rows, call.query.shape[0] // call.key.shape[0], around.lse, call.scale, call.softcap
        )
        selection, state = None, around
        if layer.has_clusters:
            reached = self._reach[0 if first_pass else 1].attend(lookup, layer)
            selection, state = reached.selection, merge_states(around, reached.state)
        self.meter.count(layer, selection)
        if self._mass is not None and layer.window is None:
            self._mass.add(lookup, layer, selection, state.lse)
        return state.out.reshape(call.query.shape)

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


def visible(queries: Tensor, keys: Tensor, window: int | None) -> Tensor:
    """Which positions see which: (queries, keys) bool, causal and within the window."""
    distance = queries[:, None] - keys[None, :]
    return (distance >= 0) if window is None else (distance >= 0) & (distance < window)


def _fold(query: Tensor, kv_heads: int) -> Tensor:
    """(heads, tokens, head_dim) to (kv_heads, group x tokens, head_dim)."""
    return query.reshape(kv_heads, -1, query.shape[-1])
