"""Gated attention of questions that each see the document and themselves alone."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from engine.model.attention import AttentionCall
from precompute.heads.base import Streaming
from precompute.heads.duo.blockwise import attend_biased, mask_bias
from precompute.heads.duo.gates import GatedDocumentState, mix


class GatedQuestionState:
    """Gated attention as it is served: of a document, and of questions to what is kept of it.

    A question's and its answer's tokens see the whole document and each other; in streaming
    attention the document is its sinks, its last window and the compensation token.

    Args:
        document: attention of the document alone.
        turns: (turn tokens,) the number of each token's question, ascending, of the tokens behind
            the document.
        gates: as for `GatedDocumentState`.
        streaming: what streaming attention keeps of the document.
    Source: RazorAttention, equations 4 and 5, for the compensation token.
    """

    def __init__(
        self,
        document: GatedDocumentState,
        turns: Tensor,
        gates: Tensor | None,
        streaming: Streaming,
    ) -> None:
        self._document, self._gates, self._streaming = document, gates, streaming
        self._num_asked = len(turns)
        place = torch.arange(len(turns), device=turns.device)
        self._place = place - torch.searchsorted(turns, turns)  # within the token's turn
        self._bias = mask_bias((turns[:, None] == turns) & (place <= place[:, None]))

    def attend(self, call: AttentionCall) -> Tensor:
        """Mix both kinds of attention, for the document's tokens and for the questions'."""
        num_tokens = call.query.shape[1] - self._num_asked
        document = _part(call, slice(None, num_tokens))
        asked = self._ask(_part(call, slice(num_tokens, None)), document)
        return torch.cat((self._document.attend(document), asked), dim=1)

    def _ask(self, turns: AttentionCall, document: AttentionCall) -> Tensor:
        full = self._attend(turns, document.key, document.value, self._far(document))
        if self._gates is None or turns.window is not None:
            return full
        streaming = self._attend(turns, *self._kept(document))
        return mix(self._gates[turns.layer], full, streaming, turns.key.shape[0])

    def _far(self, document: AttentionCall) -> Tensor:
        """What turns see of the document in full attention: (1 or turn tokens, document tokens)."""
        place = torch.arange(document.key.shape[1], device=self._place.device)
        if document.window is None:
            return torch.zeros(1, len(place), device=place.device)
        distance = (len(place) + self._place)[:, None] - place
        return mask_bias(distance < document.window)

    def _kept(self, document: AttentionCall) -> tuple[Tensor, Tensor, Tensor]:
        """The constant cache: keys and values (kv_heads, kept, head_dim), bias (1, kept)."""
        first = self._streaming.num_sinks
        last = max(first, document.key.shape[1] - self._streaming.window)
        with_mean = self._streaming.compensation and last > first
        keys, values = (
            _shorten(one, first, last, with_mean) for one in (document.key, document.value)
        )
        bias = torch.zeros(1, keys.shape[1], device=keys.device)
        if with_mean:
            bias[0, first] = math.log(last - first)
        return keys, values, bias

    def _attend(self, turns: AttentionCall, keys: Tensor, values: Tensor, bias: Tensor) -> Tensor:
        """Attend to a document's keys with their bias, and to the own turn's."""
        near = self._bias
        if turns.window is not None:
            near = near + mask_bias(self._place[:, None] - self._place < turns.window)
        return attend_biased(
            turns.query,
            torch.cat((keys, turns.key), dim=1),
            torch.cat((values, turns.value), dim=1),
            torch.cat((bias.expand(len(near), -1), near), dim=1),
            scale=turns.scale,
            softcap=turns.softcap,
        )


def _part(call: AttentionCall, at: slice) -> AttentionCall:
    return replace(call, query=call.query[:, at], key=call.key[:, at], value=call.value[:, at])


def _shorten(tensor: Tensor, first: int, last: int, with_mean: bool) -> Tensor:
    """Keys or values without those from `first` up to `last`, or with their mean instead."""
    parts = [tensor[:, :first], tensor[:, last:]]
    if with_mean:
        parts.insert(1, tensor[:, first:last].float().mean(dim=1, keepdim=True).to(tensor.dtype))
    return torch.cat(parts, dim=1)
