"""Attention over a layer's clustered tokens: over all of them, or over those that a lookup selects.

The lookup scores centroids: the clusters whose aggregated share of attention reaches a threshold
are attended to exactly.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from engine.config import LookupConfig
from engine.document.budget import Thresholds
from engine.document.cache import LayerCache
from engine.kernels.prefill.attend_causal import attend_all
from engine.kernels.prefill.select_tokens import find_threshold
from engine.kernels.shared.accumulate_attention_mass import AttendedTokens
from engine.kernels.shared.score_clusters import aggregate, log_cluster_scores
from engine.kernels.shared.scores import scores_reference
from engine.kernels.shared.state import State

LEVEL1_TOKENS = 4  # for each token that a budget pays for


@dataclass(frozen=True)
class Selection:
    """The tokens that a lookup selected, as lists on the host.

    Attributes:
        tokens: per KV head the selected indices into the layer's clustered tokens, ascending int64.
        centroids_read: centroids that were read to find them, over all heads.
    """

    tokens: tuple[Tensor, ...]
    centroids_read: int

    @property
    def num_tokens(self) -> int:
        """Selected tokens over all heads."""
        return sum(len(tokens) for tokens in self.tokens)


@dataclass(frozen=True)
class DeviceSelection:
    """The tokens that a lookup selected, as lists that are still on the device.

    Attributes:
        attended: clustered tokens of each head.
        centroids_read: centroids that were read to find them, over all heads.
    """

    attended: AttendedTokens
    centroids_read: int


@dataclass(frozen=True)
class FullSelection:
    """All clustered tokens, without a lookup.

    Attributes:
        num_tokens: clustered tokens over all retrieval heads.
    """

    num_tokens: int
    centroids_read: int = 0

    @classmethod
    def of(cls, layer: LayerCache) -> "FullSelection":
        """All clustered tokens of a layer."""
        return cls(layer.num_clustered)


@dataclass(frozen=True)
class Lookup:
    """The queries of a lookup.

    Attributes:
        rows: queries (kv_heads, group x tokens, head_dim).
        group: query heads per KV head.
        extra_lse: log-sum-exp (kv_heads, group x tokens), fp32, in nats, of the keys that are
            attended to without a lookup: sinks, tail and the question's own.
        scale, softcap: of the layer's attention scores.
        layer_index: which of the document's layers it is.
        dense_out: outputs over the keys of `extra_lse`, shaped as the rows; None where the caller
            joins them with what the lookup finds.
    """

    rows: Tensor
    group: int
    extra_lse: Tensor
    scale: float
    softcap: float | None
    layer_index: int = 0
    dense_out: Tensor | None = None


def select_clusters(
    lookup: Lookup, layer: LayerCache, thresholds: Thresholds, config: LookupConfig
) -> Selection:
    """Select the clusters whose aggregated score reaches the thresholds.

    Returns: the tokens of the selected clusters.
    Source: Squeezed Attention, section 4; hierarchical lookup section 4.3. Where level 1 prunes,
    the pruned clusters keep their place in the denominator through their level-1 centroids.
    """
    scores, centroids_read = _score_clusters(lookup, layer, thresholds.level1, config)
    is_selected = (scores >= thresholds.level2) & scores.isfinite()  # none that level 1 pruned
    return Selection(_members(is_selected, layer.level2.sizes), centroids_read)


def select_best_clusters(
    lookup: Lookup, layer: LayerCache, num_vectors: int, level1: float, config: LookupConfig
) -> Selection:
    """Select the clusters with the highest scores, until so many vectors are read.

    Args:
        num_vectors: clustered keys and values to read in this layer, over all heads; with two
            levels of lookup the level-2 centroids that are scored count too.
        level1: threshold of level-1 clusters in nats, if there are two levels.
    Returns: the tokens of the selected clusters, in number as near to what was asked for as bins
        of scores allow (`find_threshold`).
    """
    sizes = layer.level2.sizes
    scores, centroids_read = _score_clusters(lookup, layer, level1, config, num_vectors // 2)
    candidates = centroids_read - layer.level1.num_centroids if config.levels == 2 else 0
    threshold = find_threshold(scores, sizes, (num_vectors - candidates) // 2)
    is_selected = (scores >= threshold) & scores.isfinite()
    return Selection(_members(is_selected, sizes), centroids_read)


class AttendedClusters(NamedTuple):
    """Attention over clustered tokens.

    Attributes:
        state: the partial attention over them.
        selection: which tokens were attended to.
        is_joint: whether the state is over the lookup's dense keys too.
    """

    state: State
    selection: Selection | DeviceSelection | FullSelection
    is_joint: bool = False


class ClusterAttention(Protocol):
    """A way to attend to a layer's clustered tokens."""

    def attend(self, lookup: Lookup, layer: LayerCache) -> AttendedClusters:
        """Attend with `lookup.rows` to some or all of the layer's clustered tokens."""
        ...


class FullClusterAttention:
    """Budget `exact`: attention over every clustered token."""

    def attend(self, lookup: Lookup, layer: LayerCache) -> AttendedClusters:
        """Attend to all clustered tokens through a library's kernel."""
        state = attend_all(
            lookup.rows,
            layer.keys[:, layer.num_anchors :],
            layer.values[:, layer.num_anchors :],
            scale=lookup.scale,
            softcap=lookup.softcap,
        )
        return AttendedClusters(state, FullSelection.of(layer))


@dataclass(frozen=True)
class SparseClusterAttention:
    """Squeezed Attention: exact attention over the clusters that a centroid lookup selects."""

    thresholds: Thresholds
    config: LookupConfig

    def attend(self, lookup: Lookup, layer: LayerCache) -> AttendedClusters:
        """Select clusters and attend to their tokens."""
        selection = select_clusters(lookup, layer, self.thresholds, self.config)
        return AttendedClusters(attend_selected(lookup, layer, selection), selection)


@dataclass(frozen=True)
class BudgetedClusterAttention:
    """Exact attention over the clusters with the highest scores, as many as a budget pays for.

    Attributes:
        num_vectors: by layer, what `select_best_clusters` may read.
        level1: threshold of level-1 clusters, where there are two levels.
    """

    num_vectors: tuple[int, ...]
    level1: float
    config: LookupConfig

    @property
    def num_tokens(self) -> tuple[int, ...]:
        """By layer, the clustered tokens to select with one level of lookup."""
        return tuple(num_vectors // 2 for num_vectors in self.num_vectors)

    def attend(self, lookup: Lookup, layer: LayerCache) -> AttendedClusters:
        """Select clusters and attend to their tokens."""
        most = self.num_vectors[lookup.layer_index]
        selection = select_best_clusters(lookup, layer, most, self.level1, self.config)
        return AttendedClusters(attend_selected(lookup, layer, selection), selection)


def attend_selected(lookup: Lookup, layer: LayerCache, selection: Selection) -> State:
    """Attend exactly to the selected tokens.

    Heads select very different numbers of tokens, so they are taken one by one.

    Returns: the state, out (kv_heads, group x tokens, head_dim) and lse (kv_heads, group x tokens).
    """
    parts = [
        attend_all(
            lookup.rows[head : head + 1],
            gather_tokens(layer.keys, layer, head, tokens),
            gather_tokens(layer.values, layer, head, tokens),
            scale=lookup.scale,
            softcap=lookup.softcap,
        )
        for head, tokens in enumerate(selection.tokens)
    ]
    return State(torch.cat([p.out for p in parts]), torch.cat([p.lse for p in parts]))


def gather_tokens(tensor: Tensor, layer: LayerCache, head: int, tokens: Tensor) -> Tensor:
    """Copy clustered rows of one head out of the layer's keys or values.

    Args:
        tensor: the layer's keys or values (retrieval_heads, tokens, head_dim).
        tokens: indices into the clustered tokens (selected,) int64.
    Returns: (1, selected, head_dim).
    """
    return tensor[head, layer.num_anchors :].index_select(0, tokens)[None]


def _score_clusters(
    lookup: Lookup, layer: LayerCache, level1: float, config: LookupConfig, num_tokens: int = 0
) -> tuple[Tensor, int]:
    """Score the level-2 clusters.

    Args:
        level1: threshold of level-1 clusters, where there are two levels.
        num_tokens: clustered tokens that are to be selected; level 1 keeps `LEVEL1_TOKENS` times as
            many at least, so that there is something to choose from.
    Returns: aggregated log scores (kv_heads, level-2 clusters), -inf for empty and for pruned ones;
        and the number of centroids that were read.
    """
    if config.levels == 2:
        return _score_two_levels(lookup, layer, level1, config, num_tokens)
    scores = log_cluster_scores(
        lookup.rows,
        layer.level2.centroids,
        layer.level2.sizes,
        scale=lookup.scale,
        softcap=lookup.softcap,
        extra_lse=lookup.extra_lse,
    )
    return aggregate(scores, lookup.group, config.aggregation), layer.level2.num_centroids


def _score_two_levels(
    lookup: Lookup, layer: LayerCache, level1: float, config: LookupConfig, num_tokens: int
) -> tuple[Tensor, int]:
    sizes1 = layer.level1_token_sizes()
    scores1 = log_cluster_scores(
        lookup.rows,
        layer.level1.centroids,
        sizes1,
        scale=lookup.scale,
        softcap=lookup.softcap,
        extra_lse=lookup.extra_lse,
    )
    aggregated = aggregate(scores1, lookup.group, config.aggregation)  # (heads, K1)
    if num_tokens:
        level1 = min(level1, float(find_threshold(aggregated, sizes1, LEVEL1_TOKENS * num_tokens)))
    keep1 = aggregated >= level1
    pruned_lse = _pruned_mass(lookup, layer, sizes1, keep1)
    candidates = _members(keep1, layer.level1.sizes)  # per head: level-2 clusters
    scores2 = torch.full_like(layer.level2.sizes, -torch.inf, dtype=torch.float32)
    for head, clusters in enumerate(candidates):
        found = log_cluster_scores(
            lookup.rows[head : head + 1],
            layer.level2.centroids[head, clusters][None],
            layer.level2.sizes[head, clusters][None],
            scale=lookup.scale,
            softcap=lookup.softcap,
            extra_lse=torch.logaddexp(lookup.extra_lse, pruned_lse)[head : head + 1],
        )
        scores2[head, clusters] = aggregate(found, lookup.group, config.aggregation)[0]
    return scores2, keep1.numel() + sum(len(clusters) for clusters in candidates)


def _pruned_mass(lookup: Lookup, layer: LayerCache, sizes1: Tensor, keep1: Tensor) -> Tensor:
    """Log mass of the pruned level-1 clusters, by their centroids (heads, rows)."""
    scores = scores_reference(
        lookup.rows, layer.level1.centroids, scale=lookup.scale, softcap=lookup.softcap
    )
    weights = sizes1.float().masked_fill(keep1, 0.0).log()[:, None, :]
    return torch.logsumexp(scores + weights, dim=-1)


def _members(keep: Tensor, sizes: Tensor) -> tuple[Tensor, ...]:
    """Per head the indices of all members of the kept runs."""
    return tuple(
        torch.repeat_interleave(kept, size).nonzero()[:, 0]
        for kept, size in zip(keep, sizes.long(), strict=True)
    )
