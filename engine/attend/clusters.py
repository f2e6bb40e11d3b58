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
from engine.kernels.shared.accumulate_attention_mass import AttendedTokens
from engine.kernels.shared.attend_keys import attend_keys, scores_reference
from engine.kernels.shared.score_clusters import aggregate, log_cluster_scores
from engine.kernels.shared.state import State


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

    @property
    def num_tokens(self) -> Tensor:
        """Selected tokens over all heads, () int64 on the device: reading it waits for the GPU."""
        return self.attended.counts.sum()


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
        return cls(layer.num_retrieval * (layer.num_tokens - layer.num_anchors))


@dataclass(frozen=True)
class Lookup:
    """The queries of a lookup.

    Attributes:
        rows: queries (kv_heads, group x tokens, head_dim).
        group: query heads per KV head.
        extra_lse: log-sum-exp (kv_heads, group x tokens), fp32, in nats, of the keys that are
            attended to without a lookup: sinks, tail and the question's own.
        scale, softcap: of the layer's attention scores.
    """

    rows: Tensor
    group: int
    extra_lse: Tensor
    scale: float
    softcap: float | None


def select_clusters(
    lookup: Lookup, layer: LayerCache, thresholds: Thresholds, config: LookupConfig
) -> Selection:
    """Select the clusters whose aggregated score reaches the thresholds.

    Returns: the tokens of the selected clusters.
    Source: Squeezed Attention, section 4; hierarchical lookup section 4.3. Where level 1 prunes,
    the pruned clusters keep their place in the denominator through their level-1 centroids.
    """
    if config.levels == 1:
        return _one_level(lookup, layer, thresholds, config)
    return _two_levels(lookup, layer, thresholds, config)


class AttendedClusters(NamedTuple):
    """Attention over clustered tokens.

    Attributes:
        state: the partial attention over them.
        selection: which tokens were attended to.
    """

    state: State
    selection: Selection | DeviceSelection | FullSelection


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


def attend_selected(lookup: Lookup, layer: LayerCache, selection: Selection) -> State:
    """Attend exactly to the selected tokens.

    Heads select very different numbers of tokens, so they are taken one by one.

    Returns: the state, out (kv_heads, group x tokens, head_dim) and lse (kv_heads, group x tokens).
    """
    parts = [
        attend_keys(
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


def _one_level(
    lookup: Lookup, layer: LayerCache, thresholds: Thresholds, config: LookupConfig
) -> Selection:
    scores = log_cluster_scores(
        lookup.rows,
        layer.level2.centroids,
        layer.level2.sizes,
        scale=lookup.scale,
        softcap=lookup.softcap,
        extra_lse=lookup.extra_lse,
    )
    keep = aggregate(scores, lookup.group, config.aggregation) >= thresholds.level2  # (heads, K2)
    members = _members(keep, layer.level2.sizes)
    return Selection(members, keep.numel())


def _two_levels(
    lookup: Lookup, layer: LayerCache, thresholds: Thresholds, config: LookupConfig
) -> Selection:
    sizes1 = layer.level1_token_sizes()
    scores1 = log_cluster_scores(
        lookup.rows,
        layer.level1.centroids,
        sizes1,
        scale=lookup.scale,
        softcap=lookup.softcap,
        extra_lse=lookup.extra_lse,
    )
    keep1 = aggregate(scores1, lookup.group, config.aggregation) >= thresholds.level1  # (heads, K1)
    pruned_lse = _pruned_mass(lookup, layer, sizes1, keep1)
    candidates = _members(keep1, layer.level1.sizes)  # per head: level-2 clusters
    tokens: list[Tensor] = []
    centroids_read = keep1.numel()
    for head, clusters in enumerate(candidates):
        scores2 = log_cluster_scores(
            lookup.rows[head : head + 1],
            layer.level2.centroids[head, clusters][None],
            layer.level2.sizes[head, clusters][None],
            scale=lookup.scale,
            softcap=lookup.softcap,
            extra_lse=torch.logaddexp(lookup.extra_lse, pruned_lse)[head : head + 1],
        )
        voted = aggregate(scores2, lookup.group, config.aggregation)[0]
        kept = torch.zeros_like(layer.level2.sizes[head], dtype=torch.bool)
        kept[clusters[voted >= thresholds.level2]] = True
        tokens += _members(kept[None], layer.level2.sizes[head][None])
        centroids_read += len(clusters)
    return Selection(tuple(tokens), centroids_read)


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
