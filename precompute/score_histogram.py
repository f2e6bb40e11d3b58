"""Scores of probe questions, as a joint histogram of both lookup levels."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.attend.clusters import Lookup
from engine.config import LookupConfig
from engine.document.budget import BudgetCurve, LayerSplit, Thresholds
from engine.document.cache import DocumentCache, LayerCache
from engine.kernels.shared.score_clusters import aggregate_blocks, log_group_scores

LOWEST, NUM_BINS = -24.0, 384  # log scores in nats; anything lower is read at budget 1 alone
FLOOR_TOKENS = 256  # a head, on average: a question that gets fewer is not worth asking
SPLIT_POINTS = 24  # budgets for which the split among layers is kept
LOST_SHARE = 0.02  # of the tokens that level 2 would keep, level 1 may prune these


class ScoreHistogram:
    """Counts the clusters of probe questions by score: what each threshold would have loaded.

    Args:
        config: how clusters will be found.
        apart: whether the tokens of a lookup select apart (decoding) or together (prefill).
        document: whose clusters are counted; what is counted stays on its device until a curve is
            asked for.
    """

    def __init__(self, config: LookupConfig, document: DocumentCache, *, apart: bool) -> None:
        device = document.layers[0].keys.device
        self._config, self._apart, self._document = config, apart, document
        # Per layer and bin of level 2: clustered tokens. With two levels also, per (bin of
        # level 1, bin of level 2): clustered tokens; and per bin of level 1: centroids.
        # Whole numbers, so that no order of additions changes them.
        shape = (len(document.layers), NUM_BINS)
        self._by_layer = torch.zeros(shape, dtype=torch.int64, device=device)
        num_joint = NUM_BINS * NUM_BINS if config.levels == 2 else 0
        self._tokens = torch.zeros(num_joint, dtype=torch.int64, device=device)
        self._centroids = torch.zeros(NUM_BINS, dtype=torch.int64, device=device)
        self._selections = 0

    def count(
        self, lookup: Lookup, layer: LayerCache, lengths: Sequence[int] | None = None
    ) -> None:
        """Count the scores of a layer's clusters.

        Args:
            lookup: of one question, or of several whose tokens stand side by side.
            lengths: tokens of each of several questions; None for one. Where tokens select apart,
                it makes no difference whose they are.
        """
        num_tokens = lookup.rows.shape[1] // lookup.group
        lengths = (num_tokens,) if lengths is None else lengths
        scores2 = self._voted(lookup, lengths, layer.level2.centroids, layer.level2.sizes)
        bins2 = _bins(scores2)
        weights = layer.level2.sizes.long().expand_as(bins2)
        # A row of bins for each selection and head: few additions meet at the same bin.
        by_row = bins2.new_zeros(bins2[..., 0].numel(), NUM_BINS)
        by_row.scatter_add_(1, bins2.flatten(0, 1), weights.flatten(0, 1))
        self._by_layer[lookup.layer_index] += by_row.sum(0)
        if self._config.levels == 2:
            parents = self._voted(
                lookup, lengths, layer.level1.centroids, layer.level1_token_sizes()
            )
            owners = _owners(layer.level1.offsets, scores2.shape[2])
            bins1 = _bins(parents).gather(2, owners.expand_as(bins2))
            joint = (bins1 * NUM_BINS + bins2).flatten()
            self._tokens.scatter_add_(0, joint, weights.flatten())
            self._centroids.scatter_add_(0, bins1.flatten(), torch.ones_like(joint))
        self._selections += num_tokens if self._apart else len(lengths)

    def _voted(
        self, lookup: Lookup, lengths: Sequence[int], centroids: Tensor, sizes: Tensor
    ) -> Tensor:
        """Aggregated log scores (selections, kv_heads, clusters)."""
        group, how = lookup.group, self._config.aggregation
        by_token = log_group_scores(
            lookup.rows,
            centroids,
            sizes,
            group=group,
            aggregation=how,
            scale=lookup.scale,
            softcap=lookup.softcap,
            extra_lse=lookup.extra_lse,
        )
        if self._apart:  # each token is a block of its own
            mean = 0.0 if how == "max" else math.log(group)
            return by_token.transpose(0, 1) - mean
        owners = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
        return aggregate_blocks(by_token, group, owners.to(by_token.device), len(lengths), how)

    def curve(self) -> BudgetCurve:
        """The share that each threshold loads, from the fewest tokens to nearly all.

        For each level-2 threshold, level 1 prunes as much as it can while it loses no more than
        `LOST_SHARE` of the tokens that level 2 would keep: both levels act together, as they do
        when a question is answered.
        """
        full, fixed = self._vectors()
        passes = self._passes
        # Summed from the top: [i, j] holds what reaches bins i and j.
        tokens = _from_top(_from_top(self._joint(), 0), 1).double().numpy() / passes
        centroids = _from_top(self._centroids.cpu(), 0).double().numpy() / passes
        shares: list[float] = []
        thresholds: list[Thresholds] = []
        bin1, floor = NUM_BINS - 1, self._floor()
        for bin2 in reversed(range(NUM_BINS)):
            enough = tokens[:, bin2] >= (1 - LOST_SHARE) * tokens[0, bin2]
            bin1 = min(bin1, int(enough.nonzero()[0][-1]))  # a larger budget prunes no more
            read = fixed + 2 * float(tokens[bin1, bin2])
            read += float(centroids[bin1]) if self._config.levels == 2 else 0.0
            share = min(1.0, read / full)
            if share < floor:
                continue
            if not shares or share > shares[-1] * 1.005:
                shares.append(share)
                thresholds.append(Thresholds(level1=_edge(bin1), level2=_edge(bin2)))
        return BudgetCurve(tuple(shares), tuple(thresholds))

    def _joint(self) -> Tensor:
        """Clustered tokens per (bin of level 1, bin of level 2); one level alone prunes nothing."""
        if self._config.levels == 2:
            return self._tokens.cpu().view(NUM_BINS, NUM_BINS)
        joint = torch.zeros(NUM_BINS, NUM_BINS, dtype=torch.int64)
        joint[-1] = self._by_layer.cpu().sum(0)
        return joint

    def split(self, curve: BudgetCurve) -> LayerSplit:
        """What the thresholds of a curve load in each layer, at some of its budgets."""
        if not curve.shares:  # everything is below the floor: every budget reads all
            return LayerSplit()
        last = len(curve.shares) - 1
        points = sorted({round(at * last / SPLIT_POINTS) for at in range(SPLIT_POINTS + 1)})
        tokens = _from_top(self._by_layer.cpu(), 1).double() / self._passes
        clustered = torch.tensor([layer.num_clustered for layer in self._document.layers])
        shares = tokens / clustered.clamp(min=1)[:, None]  # (layers, bins)
        edges = [_bin_of(curve.thresholds[point].level2) for point in points]
        return LayerSplit(
            shares=tuple(curve.shares[point] for point in points),
            layers=tuple(tuple(shares[:, edge].tolist()) for edge in edges),
        )

    def share_at(self, thresholds: Thresholds) -> float:
        """The share of the budgeted bytes that thresholds of one level of lookup load."""
        full, fixed = self._vectors()
        tokens = _from_top(self._by_layer.cpu(), 1).sum(0)[_bin_of(thresholds.level2)]
        return (fixed + 2 * float(tokens) / self._passes) / full

    @property
    def _passes(self) -> float:
        return self._selections / sum(layer.has_clusters for layer in self._document.layers)

    def _floor(self) -> float:
        """The least share worth asking for: what is always read, and a few tokens a head."""
        full, fixed = self._vectors()
        clustered = (
            layer.num_retrieval * min(FLOOR_TOKENS, layer.num_tokens - layer.num_anchors)
            for layer in self._document.budgeted_layers
        )
        return (fixed + 2 * sum(clustered)) / full

    def _vectors(self) -> tuple[int, int]:
        """Vectors that full attention reads in a pass, and those that every lookup reads."""
        layers = self._document.budgeted_layers
        full = sum(layer.full_vectors for layer in layers)
        fixed = sum(layer.fixed_vectors(self._config.levels) for layer in layers)
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


def _bin_of(edge: float) -> int:
    """The bin that begins at a log score."""
    return max(0, round((edge - LOWEST) * (NUM_BINS / -LOWEST)))


def _from_top(counts: Tensor, dim: int) -> Tensor:
    return counts.flip(dim).cumsum(dim).flip(dim)
