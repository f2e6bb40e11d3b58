"""Scores of probe questions, as a joint histogram of both lookup levels."""

import torch
from torch import Tensor

from engine.attend.clusters import AttendedClusters, FullClusterAttention, Lookup
from engine.config import LookupConfig
from engine.document.budget import BudgetCurve, Thresholds
from engine.document.cache import DocumentCache, LayerCache
from engine.kernels.shared.score_clusters import aggregate, log_cluster_scores

LOWEST, NUM_BINS = -24.0, 384  # log scores in nats; anything lower is read at budget 1 alone
FLOOR_TOKENS = 256  # a head, on average: a question that gets fewer is not worth asking
LOST_SHARE = 0.02  # of the tokens that level 2 would keep, level 1 may prune these


class ScoreHistogram:
    """A reach that attends to everything and counts what each threshold would have loaded.

    Args:
        config: how clusters will be found.
        apart: whether the tokens of a pass select apart (decoding) or together (prefill).
        device: the document's; what is counted stays there until a curve is asked for.
    """

    def __init__(self, config: LookupConfig, *, apart: bool, device: torch.device) -> None:
        self._config = config
        self._apart = apart
        self._everything = FullClusterAttention()
        # Per (bin of level 1, bin of level 2): clustered tokens; per bin of level 1: centroids.
        # Whole numbers, so that no order of additions changes them.
        self._tokens = torch.zeros(NUM_BINS * NUM_BINS, dtype=torch.int64, device=device)
        self._centroids = torch.zeros(NUM_BINS, dtype=torch.int64, device=device)
        self.selections = 0

    def attend(self, lookup: Lookup, layer: LayerCache) -> AttendedClusters:
        """Attend to all clustered tokens and count their clusters' scores."""
        num_tokens = lookup.rows.shape[1] // lookup.group
        scores2 = self._voted(lookup, layer.level2.centroids, layer.level2.sizes)
        if self._config.levels == 1:
            scores1 = torch.zeros_like(scores2)
        else:
            parents = self._voted(lookup, layer.level1.centroids, layer.level1_token_sizes())
            owners = _owners(layer.level1.offsets, scores2.shape[2])
            scores1 = parents.gather(2, owners.expand_as(scores2))
        self._count(scores1, scores2, layer.level2.sizes)
        self.selections += num_tokens if self._apart else 1
        return self._everything.attend(lookup, layer)

    def _voted(self, lookup: Lookup, centroids: Tensor, sizes: Tensor) -> Tensor:
        """Aggregated log scores (selections, kv_heads, clusters)."""
        scores = log_cluster_scores(
            lookup.rows,
            centroids,
            sizes,
            scale=lookup.scale,
            softcap=lookup.softcap,
            extra_lse=lookup.extra_lse,
        )
        if not self._apart:
            return aggregate(scores, lookup.group, self._config.aggregation)[None]
        heads, rows, clusters = scores.shape
        steps = scores.reshape(heads, lookup.group, rows // lookup.group, clusters)
        steps = steps.permute(2, 0, 1, 3).flatten(0, 1)  # (steps x heads, group, clusters)
        votes = aggregate(steps, lookup.group, self._config.aggregation)
        return votes.reshape(-1, heads, clusters)

    def _count(self, scores1: Tensor, scores2: Tensor, sizes: Tensor) -> None:
        bins1, bins2 = _bins(scores1), _bins(scores2)
        weights = sizes.long().expand_as(bins2).flatten()
        self._tokens.scatter_add_(0, (bins1 * NUM_BINS + bins2).flatten(), weights)
        self._centroids.scatter_add_(0, bins1.flatten(), torch.ones_like(weights))

    def curve(self, document: DocumentCache) -> BudgetCurve:
        """The share that each threshold loads, from the fewest tokens to nearly all.

        For each level-2 threshold, level 1 prunes as much as it can while it loses no more than
        `LOST_SHARE` of the tokens that level 2 would keep: both levels act together, as they do
        when a question is answered.
        """
        full, fixed = self._vectors(document)
        passes = self.selections / max(1, sum(layer.has_clusters for layer in document.layers))
        # Summed from the top: [i, j] holds what reaches bins i and j.
        joint = self._tokens.cpu().view(NUM_BINS, NUM_BINS)
        tokens = _from_top(_from_top(joint, 0), 1).double() / passes
        centroids = _from_top(self._centroids.cpu(), 0).double() / passes
        shares: list[float] = []
        thresholds: list[Thresholds] = []
        bin1 = NUM_BINS - 1
        for bin2 in reversed(range(NUM_BINS)):
            enough = tokens[:, bin2] >= (1 - LOST_SHARE) * tokens[0, bin2]
            bin1 = min(bin1, int(enough.nonzero()[-1]))  # a larger budget prunes no more
            read = fixed + 2 * float(tokens[bin1, bin2])
            read += float(centroids[bin1]) if self._config.levels == 2 else 0.0
            share = min(1.0, read / full)
            if share < self._floor(document):
                continue
            if not shares or share > shares[-1] * 1.005:
                shares.append(share)
                thresholds.append(Thresholds(level1=_edge(bin1), level2=_edge(bin2)))
        return BudgetCurve(tuple(shares), tuple(thresholds))

    def _floor(self, document: DocumentCache) -> float:
        """The least share worth asking for: what is always read, and a few tokens a head."""
        full, fixed = self._vectors(document)
        clustered = (
            layer.num_retrieval * min(FLOOR_TOKENS, layer.num_tokens - layer.num_anchors)
            for layer in document.layers
        )
        return (fixed + 2 * sum(clustered)) / full

    def _vectors(self, document: DocumentCache) -> tuple[int, int]:
        """Vectors that full attention reads in a pass, and those that every lookup reads."""
        full = sum(layer.full_vectors for layer in document.layers)
        fixed = sum(layer.fixed_vectors(self._config.levels) for layer in document.layers)
        return full, fixed


def _owners(offsets: Tensor, num_items: int) -> Tensor:
    """The run of `offsets` (heads, runs + 1) that each item is in: (heads, num_items) int64."""
    items = torch.arange(num_items, dtype=offsets.dtype, device=offsets.device)
    ends = offsets[:, 1:].contiguous()
    return torch.searchsorted(ends, items.repeat(len(ends), 1), right=True)


def _bins(scores: Tensor) -> Tensor:
    """Log scores to bins; the least bin holds all that is lower, or undefined."""
    scaled = (scores.double().nan_to_num(LOWEST) - LOWEST) * (NUM_BINS / -LOWEST)
    return scaled.clamp(0, NUM_BINS - 1).long()


def _edge(index: int) -> float:
    """The log score at which a bin begins; the least bin has no lower end."""
    return -1e30 if index == 0 else LOWEST + index * (-LOWEST / NUM_BINS)


def _from_top(counts: Tensor, dim: int) -> Tensor:
    return counts.flip(dim).cumsum(dim).flip(dim)
