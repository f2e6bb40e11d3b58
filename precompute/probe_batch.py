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
from precompute.retrieval_profiler import MOST_PASSES, ProbePasses, RetrievalProfiler
from precompute.score_histogram import ScoreHistogram

# fp32 scores of rows and clusters that are held at a time: few on a CPU, for its cache.
MOST_SCORES = {"cpu": 1 << 20, "cuda": 1 << 27}


def ask_probes(
    model: LoadedModel,
    document: DocumentCache,
    probes: Sequence[Probe],
    prefill: ScoreHistogram,
    decode: ScoreHistogram,
    check: Callable[[], None] = lambda: None,
    profiler: RetrievalProfiler | None = None,
) -> list[Tensor]:
    """Ask probes with their answers given, in one forward pass, and count their scores.

    Args:
        prefill: counts each question's tokens together, as a question's prefill selects.
        decode: counts each answer's tokens apart, as decoding selects.
        check: called several times in each layer; may raise to stop.
        profiler: counts attention mass; None for nobody.
    Returns: logits (places, vocabulary) of the first places of each answer.
    """
    batch = ProbeBatch(document, probes, prefill, decode, check, profiler)
    ids = torch.cat([part for probe in probes for part in (probe.question_ids, probe.answer_ids)])
    starts = (batch.places + document.num_tokens).to(model.device)
    drawn = [list(one.tokens) for one in _passes(document, probes)]
    keep = torch.tensor([token for tokens in drawn for token in tokens])
    logits = forward(model.model, ids.to(model.device), starts, batch, keep=keep.to(model.device))
    return list(torch.split(logits, [len(tokens) for tokens in drawn]))


class ProbeBatch(QuestionState):
    """The attention state of probes that lie side by side in one pass.

    Each token has its own probe's place behind the document, and sees its own probe alone.

    Args:
        prefill, decode, check, profiler: as of `ask_probes`.

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
        profiler: RetrievalProfiler | None = None,
    ) -> None:
        super().__init__(document, FullClusterAttention(), FullClusterAttention())
        self._check, self._profiler = check, profiler
        self._passes = _passes(document, probes) if profiler is not None else []
        self._histograms, self._parts = (prefill, decode), _ranges(probes)
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
        found = super()._attend_retrieval(call, rows, dense, layer, attention)
        if layer.has_clusters:
            group = call.query.shape[0] // call.key.shape[0]
            lookup = Lookup(rows, group, dense.lse, call.scale, call.softcap, call.layer)
            for histogram, part in zip(self._histograms, self._parts, strict=True):
                self._check()
                self._count(histogram, lookup, layer, part)
            if self._profiler is not None:
                self._check()
                self._profiler.count(lookup, found.state.lse, layer, self._passes)
        return found

    def _count(
        self, histogram: ScoreHistogram, lookup: Lookup, layer: LayerCache, part: Sequence[range]
    ) -> None:
        """Count some tokens of the pass, as many lookups at a time as memory is meant for."""
        scores_of_token = lookup.rows.shape[0] * lookup.group * layer.level2.centroids.shape[1]
        for ranges in _shared_out(
            part, max(1, MOST_SCORES[lookup.rows.device.type] // scores_of_token)
        ):
            places = torch.tensor([place for one in ranges for place in one])
            tokens = _tokens_of(lookup, len(self.places), places.to(lookup.rows.device))
            histogram.count(tokens, layer, [len(one) for one in ranges])


def _passes(document: DocumentCache, probes: Sequence[Probe]) -> list[ProbePasses]:
    """The tokens of the pass behind which answers are drawn, and where the answers stand."""
    offsets, found = document.offsets.cpu(), []
    for probe, question, answer in zip(probes, *_ranges(probes), strict=True):
        start, end = probe.passage
        inside = ((offsets[:, 1] > start) & (offsets[:, 0] < end)).nonzero()[:, 0]
        first, last = (int(inside[0]), int(inside[-1]) + 1) if len(inside) else (0, 0)
        drawn = [question[-1], *answer[:-1]][:MOST_PASSES]
        found.append(ProbePasses(tuple(drawn), first, last))
    return found


def _ranges(probes: Sequence[Probe]) -> tuple[list[range], list[range]]:
    """Where each question and each answer stands in the pass."""
    questions, answers, start = [], [], 0
    for probe in probes:
        middle = start + len(probe.question_ids)
        end = middle + len(probe.answer_ids)
        questions.append(range(start, middle))
        answers.append(range(middle, end))
        start = end
    return questions, answers


def _shared_out(ranges: Sequence[range], most: int) -> Iterator[list[range]]:
    """Runs of ranges that have at most `most` tokens together, or that are one."""
    taken: list[range] = []
    for one in ranges:
        if taken and sum(map(len, taken)) + len(one) > most:
            yield taken
            taken = []
        taken.append(one)
    if taken:
        yield taken


def _tokens_of(lookup: Lookup, num_tokens: int, tokens: Tensor) -> Lookup:
    """The lookup of some of its `num_tokens` tokens, whose places are (tokens,) int64."""
    heads, num_rows, width = lookup.rows.shape
    by_token = lookup.rows.reshape(heads, num_rows // num_tokens, num_tokens, width)
    lse = lookup.extra_lse.reshape(heads, -1, num_tokens)
    return replace(
        lookup,
        rows=by_token[:, :, tokens].flatten(1, 2),
        extra_lse=lse[:, :, tokens].flatten(1, 2),
    )
