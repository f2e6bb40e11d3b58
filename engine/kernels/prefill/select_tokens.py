"""Lookup for a block of question tokens: the tokens of the clusters that score high enough."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from common.errors import ShapeError
from engine.kernels.shared.checks import check_contiguous, check_dims, check_heads
from engine.kernels.shared.score_clusters import aggregate, check_aggregation, log_cluster_scores
from engine.kernels.shared.scores import scores_reference

# Thresholds that hold a number of tokens are edges of these bins of log scores, in nats.
LOWEST_SCORE, NUM_SCORE_BINS = -24.0, 4096
LOWEST_THRESHOLD = -1e30  # every cluster that is not empty reaches it


@dataclass(frozen=True, kw_only=True)
class SelectTokensInputs:
    """What `select_tokens` reads: a question's rows, a layer's clusters, and what to select.

    Either a threshold is given, or a number of tokens for which `find_threshold` finds one.

    With `attend_tokens` the operation is a question's prefill over the retrieval heads of a layer.

    Attributes:
        query: (kv_heads, group x tokens, head_dim), contiguous, at least one row.
        centroids: (kv_heads, clusters, head_dim) in the query's dtype, contiguous, at least one.
        offsets: (kv_heads, clusters + 1) int32, contiguous: cluster j is the run offsets[j] to
            offsets[j + 1] of the clustered tokens; it may be empty.
        threshold: logarithm of a score in nats, fp32, of one element; None where `num_wanted` is
            given.
        num_wanted: clustered tokens to list over all heads, int32, of one element; None where
            `threshold` is given.
        dense_lse: log-sum-exp in nats over the keys that were attended to before without a lookup
            (kv_heads, group x tokens), fp32, contiguous; -inf if there were none.
        anchor_keys: further keys without a lookup (kv_heads, anchors, head_dim) in the query's
            dtype, each head contiguous. They count in the scores' denominator, and are listed as
            0, 1, ... before the clustered tokens. There may be none of them.
        num_tokens: clustered tokens of a head.
        group: query heads per KV head.
        aggregation: a name of `score_clusters.AGGREGATIONS`.
        scale, softcap: the model's own.
    """

    query: Tensor
    centroids: Tensor
    offsets: Tensor
    threshold: Tensor | None = None
    num_wanted: Tensor | None = None
    dense_lse: Tensor
    anchor_keys: Tensor
    num_tokens: int
    group: int
    aggregation: str
    scale: float
    softcap: float | None = None

    def validate(self) -> None:
        """Check the tensors against each other, by their metadata alone.

        Raises: ShapeError if one does not fit or lies in memory in another way than stated;
            InvalidInput for an unknown aggregation.
        """
        check_aggregation(self.aggregation)
        heads, rows, head_dim = check_dims("query", self.query)
        dtype, device = self.query.dtype, self.query.device
        check_contiguous("query", self.query, (heads, rows, head_dim), dtype, device)
        if rows == 0 or self.group < 1 or rows % self.group:
            raise ShapeError(f"{rows} rows cannot be those of groups of {self.group} query heads.")
        _, clusters, _ = check_dims("centroids", self.centroids)
        check_contiguous("centroids", self.centroids, (heads, clusters, head_dim), dtype, device)
        if clusters == 0:
            raise ShapeError("A lookup needs at least one centroid.")
        check_contiguous("offsets", self.offsets, (heads, clusters + 1), torch.int32, device)
        if (self.threshold is None) == (self.num_wanted is None):
            raise ShapeError("A lookup takes either a threshold or a number of tokens.")
        for name, given, kind in (
            ("threshold", self.threshold, torch.float32),
            ("num_wanted", self.num_wanted, torch.int32),
        ):
            if given is None:
                continue
            if given.numel() != 1:
                raise ShapeError(f"A {name} of {tuple(given.shape)} is not one number.")
            check_contiguous(name, given, given.shape, kind, device)
        check_contiguous("dense_lse", self.dense_lse, (heads, rows), torch.float32, device)
        anchors = self.anchor_keys.shape[1] if self.anchor_keys.ndim == 3 else -1
        check_heads("anchor_keys", self.anchor_keys, (heads, anchors, head_dim), dtype, device)


class SelectedTokens(NamedTuple):
    """Tokens to attend to.

    Attributes:
        tokens: (kv_heads, anchors + clustered tokens) int32. The first `counts` of a head are
            indices, ascending, into its anchors and the clustered tokens behind them; the others
            have no meaning.
        counts: (kv_heads,) int32.
        cluster_scores: aggregated log scores (kv_heads, clusters) fp32; -inf for an empty cluster.
    """

    tokens: Tensor
    counts: Tensor
    cluster_scores: Tensor


def select_tokens(inputs: SelectTokensInputs) -> SelectedTokens:
    """List the anchors, and the tokens of the clusters whose aggregated score reaches a threshold.

    On a GPU these are three launches, four where the threshold is to be found, and nothing waits
    for the host: the counts stay there.

    Args:
        inputs: the question, the clusters and the threshold.
    Returns: the list of each KV head, and the scores of all clusters.
    Raises: ShapeError if tensors do not fit together or lie in memory in another way than stated;
        InvalidInput for an unknown aggregation.
    Source: Squeezed Attention, equations 1 to 3 and section 4.1.
    """
    inputs.validate()
    if inputs.query.is_cuda:
        from engine.kernels.prefill.triton.select_tokens.launch import select_tokens_triton

        return select_tokens_triton(inputs)
    return select_tokens_reference(inputs)


def select_tokens_reference(inputs: SelectTokensInputs) -> SelectedTokens:
    """Compute `select_tokens` in torch, head by head.

    Args: as `select_tokens`; nothing is checked.
    Returns: as `select_tokens`.
    """
    i = inputs
    sizes, anchors = i.offsets.diff(dim=1), i.anchor_keys.shape[1]
    anchor_scores = scores_reference(i.query, i.anchor_keys, scale=i.scale, softcap=i.softcap)
    scores = log_cluster_scores(
        i.query,
        i.centroids,
        sizes,
        scale=i.scale,
        softcap=i.softcap,
        extra_lse=torch.logaddexp(i.dense_lse, anchor_scores.logsumexp(dim=-1)),
    )
    cluster_scores = aggregate(scores, i.group, i.aggregation)
    tokens = torch.arange(anchors + i.num_tokens, dtype=torch.int32, device=i.query.device)
    tokens = tokens.repeat(len(i.query), 1)
    counts = torch.zeros(len(i.query), dtype=torch.int32, device=i.query.device)
    threshold = i.threshold
    if threshold is None:
        assert i.num_wanted is not None  # one of them is given
        threshold = find_threshold(cluster_scores, sizes, i.num_wanted)
    for head, is_selected in enumerate(cluster_scores >= threshold):
        selected = torch.repeat_interleave(is_selected, sizes[head].long()).nonzero()[:, 0]
        counts[head] = anchors + len(selected)
        tokens[head, anchors : counts[head]] = anchors + selected
    return SelectedTokens(tokens, counts, cluster_scores)


def find_threshold(cluster_scores: Tensor, sizes: Tensor, num_wanted: int | Tensor) -> Tensor:
    """Find the threshold with which about so many tokens are selected, over all heads.

    It is the edge of a bin of scores (`NUM_SCORE_BINS` from `LOWEST_SCORE` to 0): the one whose
    number of tokens comes nearest, the higher one of two, but never one that no cluster reaches.

    Args:
        cluster_scores: aggregated log scores (kv_heads, clusters) fp32, in nats.
        sizes: tokens of each cluster (kv_heads, clusters).
        num_wanted: tokens, as a number or as a tensor of one element.
    Returns: the threshold (1,) fp32, on the scores' device.
    """
    finite = torch.nan_to_num(cluster_scores, nan=LOWEST_SCORE, neginf=LOWEST_SCORE)
    per_nat = NUM_SCORE_BINS / -LOWEST_SCORE
    bins = ((finite - LOWEST_SCORE) * per_nat).long().clamp(0, NUM_SCORE_BINS - 1)
    counts = torch.zeros(NUM_SCORE_BINS, dtype=torch.int64, device=sizes.device)
    counts.scatter_add_(0, bins.flatten(), sizes.long().flatten())
    reached = counts.flip(0).cumsum(0)  # by the highest bins, the highest first
    distance = (reached - num_wanted).abs().masked_fill(reached == 0, torch.iinfo(torch.int64).max)
    # The first of equal ones, which `argmin` does not promise to find on every device.
    first = torch.arange(NUM_SCORE_BINS, device=sizes.device)[distance == distance.min()].min()
    lowest_bin = NUM_SCORE_BINS - 1 - first
    edge = (LOWEST_SCORE + lowest_bin / per_nat).to(torch.float32)
    return torch.where(lowest_bin == 0, LOWEST_THRESHOLD, edge).reshape(1)
