"""Probe questions that go through the model together, each seeing the document and itself."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from engine.attend.clusters import AttendedClusters, ClusterAttention, FullClusterAttention, Lookup
from engine.attend.question import QuestionState
from engine.document.cache import DocumentCache, LayerCache
from engine.kernels.shared.scores import visible
from engine.kernels.shared.state import State
from engine.model.attention import AttentionCall, forward
from engine.model.loader import LoadedModel
from precompute.probes import Probe
from precompute.score_histogram import ScoreHistogram


def ask_probes(
    model: LoadedModel,
    document: DocumentCache,
    probes: Sequence[Probe],
    prefill: ScoreHistogram,
    decode: ScoreHistogram,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Ask probes with their answers given, in one forward pass, and count their scores.

    Args:
        prefill: counts each question's tokens together, as a question's prefill selects.
        decode: counts each answer's tokens apart, as decoding selects.
        check: called before each layer attends; may raise to stop.
    """
    batch = ProbeBatch(document, probes, prefill, decode, check)
    ids = torch.cat([part for probe in probes for part in (probe.question_ids, probe.answer_ids)])
    starts = (batch.places + document.num_tokens).to(model.device)
    forward(model.model, ids.to(model.device), starts, batch)


class ProbeBatch(QuestionState):
    """The attention state of probes that lie side by side in one pass.

    Each token has its own probe's place behind the document, and sees its own probe alone.

    Args:
        prefill, decode, check: as of `ask_probes`.

    Attributes:
        places: each token's place in its probe (tokens,) int64.
    """

    def __init__(
        self,
        document: DocumentCache,
        probes: Sequence[Probe],
        prefill: ScoreHistogram,
        decode: ScoreHistogram,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(document, FullClusterAttention(), FullClusterAttention())
        self._check = check
        self._probes, self._histograms = probes, (prefill, decode)
        lengths = [len(probe.question_ids) + len(probe.answer_ids) for probe in probes]
        self.places = torch.cat([torch.arange(length) for length in lengths])
        self._owners = torch.repeat_interleave(torch.tensor(lengths))
        self._places_on_device: Tensor | None = None

    def attend(self, call: AttentionCall) -> Tensor:
        """See `AttentionState.attend`. Raises: what `check` raises."""
        self._check()
        return super().attend(call)

    def _own_places(self, num_keys: int, device: torch.device) -> Tensor:
        assert num_keys == len(self.places)
        if self._places_on_device is None:
            self._places_on_device = self.places.to(device)
        return self._places_on_device

    def _own_mask(self, num_queries: int, num_keys: int, call: AttentionCall) -> Tensor:
        device = call.query.device
        places, owners = self._own_places(num_keys, device), self._owners.to(device)
        seen = visible(places[-num_queries:], places, call.window)
        return seen & (owners[-num_queries:, None] == owners[None, :])

    def _attend_retrieval(
        self,
        call: AttentionCall,
        rows: Tensor,
        dense: State,
        layer: LayerCache,
        attention: ClusterAttention,
    ) -> AttendedClusters:
        if layer.has_clusters:
            group = call.query.shape[0] // call.key.shape[0]
            lookup = Lookup(rows, group, dense.lse, call.scale, call.softcap, call.layer)
            for histogram, part in self._parts(lookup):
                histogram.count(part, layer)
        return super()._attend_retrieval(call, rows, dense, layer, attention)

    def _parts(self, lookup: Lookup) -> Iterator[tuple[ScoreHistogram, Lookup]]:
        """Each question and each answer as a lookup of its own."""
        start, num_tokens = 0, len(self.places)
        for probe in self._probes:
            for histogram, ids in zip(
                self._histograms, (probe.question_ids, probe.answer_ids), strict=True
            ):
                end = start + len(ids)
                yield histogram, _tokens_of(lookup, num_tokens, slice(start, end))
                start = end


def _tokens_of(lookup: Lookup, num_tokens: int, tokens: slice) -> Lookup:
    """The lookup of some of its tokens."""
    heads, num_rows, width = lookup.rows.shape
    by_token = lookup.rows.reshape(heads, num_rows // num_tokens, num_tokens, width)
    lse = lookup.extra_lse.reshape(heads, -1, num_tokens)
    return replace(
        lookup,
        rows=by_token[:, :, tokens].flatten(1, 2),
        extra_lse=lse[:, :, tokens].flatten(1, 2),
    )
