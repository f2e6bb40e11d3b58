"""Physical order: clusters become contiguous runs, so that loads are coalesced."""

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.document.cache import Clusters, LayerCache, no_clusters
from precompute.clustering.base import KMeans, weighted_means
from precompute.config import PrecomputeConfig
from precompute.prefill import PrefilledLayer


def lay_out_window(layer: PrefilledLayer, window: int, num_tokens: int) -> LayerCache:
    """A sliding-window layer keeps what its window still shows, exactly and unclustered."""
    keys = layer.keys
    first = num_tokens - keys.shape[1]
    positions = torch.arange(first, num_tokens, dtype=torch.int32, device=keys.device)
    return LayerCache(
        keys=keys,
        values=layer.values,
        positions=positions.expand(keys.shape[0], -1).contiguous(),
        num_anchors=keys.shape[1],
        level2=no_clusters(keys),
        level1=no_clusters(keys),
        window=window,
    )


def lay_out_clusters(
    layers: Sequence[PrefilledLayer], kmeans: KMeans, settings: PrecomputeConfig
) -> list[LayerCache]:
    """Cluster retrieval heads' keys on two levels and bring keys and values into cluster order.

    Layers that are given together are clustered together, head by head as they would be alone:
    short documents' heads are too few to fill a GPU.

    Sinks and tail come first and stay exact. A level-2 cluster is a contiguous run of tokens, in
    document order within; a level-1 cluster is a contiguous run of level-2 clusters.
    Source: Squeezed Attention, section 4.1 and 4.3.
    """
    num_tokens = layers[0].keys.shape[1]
    first, last = settings.num_sinks, num_tokens - settings.num_tail
    counts = [layer.keys.shape[0] for layer in layers]
    if first >= last or sum(counts) == 0:
        return [_gathered(layer, _in_order(layer.keys), num_tokens, None) for layer in layers]
    parts = [layer.keys[:, first:last] for layer in layers]
    keys = parts[0] if len(parts) == 1 else torch.cat(parts)
    level2, level1, order = _two_levels(keys, kmeans, settings)
    tokens = _in_order(keys, num_tokens)
    anchors = torch.cat((tokens[:, :first], tokens[:, last:]), dim=1)
    positions = torch.cat((anchors, order + first), dim=1)
    heads = itertools.pairwise(itertools.accumulate(counts, initial=0))
    found = []
    for layer, (start, end) in zip(layers, heads, strict=True):
        own = slice(start, end)
        levels = (_of_heads(level2, own), _of_heads(level1, own)) if end > start else None
        num_anchors = anchors.shape[1] if end > start else num_tokens
        found.append(_gathered(layer, positions[own], num_anchors, levels))
    return found


def _in_order(keys: Tensor, num_tokens: int | None = None) -> Tensor:
    """Places of the tokens in the document's order (heads, tokens) int64."""
    num_tokens = keys.shape[1] if num_tokens is None else num_tokens
    return torch.arange(num_tokens, device=keys.device).expand(keys.shape[0], -1)


def _of_heads(clusters: Clusters, heads: slice) -> Clusters:
    """The clusters of some heads, in memory of their own."""
    return Clusters(clusters.centroids[heads].clone(), clusters.offsets[heads].clone())


def _gathered(
    layer: PrefilledLayer,
    positions: Tensor,
    num_anchors: int,
    levels: tuple[Clusters, Clusters] | None,
) -> LayerCache:
    where = positions[..., None].expand(-1, -1, layer.keys.shape[2])
    keys = layer.keys.gather(1, where)
    level2, level1 = levels or (no_clusters(keys), no_clusters(keys))
    return LayerCache(
        keys=keys,
        values=layer.values.gather(1, where),
        positions=positions.to(torch.int32).contiguous(),
        num_anchors=num_anchors,
        level2=level2,
        level1=level1,
        streaming=layer.streaming,
        scoped=layer.scoped,
    )


def _two_levels(
    keys: Tensor, kmeans: KMeans, settings: PrecomputeConfig
) -> tuple[Clusters, Clusters, Tensor]:
    """Both levels, and the order of tokens (heads, tokens) that makes their clusters runs."""
    num_tokens = keys.shape[1]
    num2 = _count(settings.level2_ratio, num_tokens)
    num1 = min(num2, _count(settings.level1_ratio, num_tokens))
    ones = torch.ones(keys.shape[:2], device=keys.device)
    labels2 = kmeans.labels(keys, ones, num2)
    means2 = weighted_means(keys, ones, labels2, num2)
    sizes2 = torch.zeros(means2.shape[:2], device=keys.device).scatter_add_(1, labels2, ones)
    labels1 = kmeans.labels(means2.to(keys.dtype), sizes2, num1)  # as they are stored
    rank1, order1 = _ranks(labels1)  # level-2 clusters, level-1 clusters together
    labels2 = rank1.gather(1, labels2)
    means2 = _rows(means2, order1)
    sizes2, labels1 = sizes2.gather(1, order1), labels1.gather(1, order1)
    _, order = _ranks(labels2)
    means1 = weighted_means(means2, sizes2, labels1, num1)
    level2 = Clusters(means2.to(keys.dtype), _offsets(sizes2.long()))
    level1 = Clusters(means1.to(keys.dtype), _offsets(_histogram(labels1, num1)))
    return level2, level1, order


def _count(ratio: float, num_tokens: int) -> int:
    return min(num_tokens, max(1, round(ratio * num_tokens)))


def _ranks(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Each item's place when sorted by label, and the items in that order; stable."""
    order = labels.argsort(dim=1, stable=True)
    return order.argsort(dim=1), order


def _rows(points: Tensor, order: Tensor) -> Tensor:
    return points.gather(1, order[..., None].expand(-1, -1, points.shape[2]))


def _histogram(labels: Tensor, num_clusters: int) -> Tensor:
    counts = torch.zeros(labels.shape[0], num_clusters, dtype=torch.int64, device=labels.device)
    return counts.scatter_add_(1, labels, torch.ones_like(labels))


def _offsets(sizes: Tensor) -> Tensor:
    """Offsets (heads, clusters + 1) int32 of runs of the given sizes (heads, clusters)."""
    start = sizes.new_zeros(sizes.shape[0], 1)
    return torch.cat((start, sizes.cumsum(dim=1)), dim=1).to(torch.int32)
