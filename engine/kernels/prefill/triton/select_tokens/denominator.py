"""The first launch of a lookup: the denominator of each row's scores."""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from engine.kernels.prefill.select_tokens import NUM_SCORE_BINS, SelectTokensInputs
from engine.kernels.prefill.triton.select_tokens.scores import (
    TINY,
    capped_scores,
    load_sizes,
    new_tensor,
    score_arguments,
)
from engine.kernels.prefill.triton.select_tokens.tiles import SelectTiles
from engine.kernels.shared.overlap import can_overlap, launch_options, should_overlap
from engine.kernels.shared.sizes import ceil_div, power_of_two
from engine.kernels.shared.triton.columns import mask_columns, tile_columns
from engine.kernels.shared.triton.online_softmax import LOG2_E
from engine.kernels.shared.triton.overlap import release_next_launch, wait_for_previous_launch

FITS = tl.constexpr(1e30)  # sums of powers between it and its inverse lost nothing in fp32


@triton.jit
def _update_sum(scores, top, total):
    """Add a tile of scores [ROWS, CLUSTERS], to base 2, to the sum of 2^(score - top) [ROWS]."""
    new_top = tl.maximum(top, tl.max(scores, 1))  # [ROWS]
    total = total * tl.exp2(top - new_top) + tl.sum(tl.exp2(scores - new_top[:, None]), 1)
    return new_top, total


@triton.jit
def _load_sizes_once(offsets, head, cluster, clusters):
    """As `load_sizes`, in one load: where there are more threads than clusters, each loads less."""
    edge = offsets + head * (clusters + 1) + cluster[:, None] + tl.arange(0, 2)[None, :]
    edges = tl.load(edge, mask=(cluster < clusters)[:, None], other=0)  # [CLUSTERS, 2]
    return tl.sum(tl.where(tl.arange(0, 2)[None, :] == 0, -edges, edges), 1)


@triton.jit
def _load_centroids(
    centroids, head, first, clusters, D: tl.constexpr, CLUSTERS: tl.constexpr,
    DESCRIBED: tl.constexpr,
):  # fmt: skip
    """Load a tile of a head's centroids [CLUSTERS, WIDTH]; with DESCRIBED from a descriptor.

    What lies behind the head's last centroid may be anything that is finite.
    """
    if DESCRIBED:
        return centroids.load([(head * clusters).to(tl.int32) + first, 0])
    else:
        cluster = first + tl.arange(0, CLUSTERS)
        return tl.load(
            centroids + (head * clusters + cluster[:, None]) * D + tile_columns(D),
            mask=mask_columns((cluster < clusters)[:, None], D),
            other=0.0,
        )


@triton.jit
def select_tokens_denominator_kernel(
    query,
    centroids,
    offsets,
    anchor_keys,
    dense_lse,
    denominators,
    histogram,
    rows,
    clusters,
    num_anchors,
    anchor_stride,
    tiles_per_split,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    CLUSTERS: tl.constexpr,
    FIXED_MAXIMUM: tl.constexpr,
    DESCRIBED: tl.constexpr,
    BINS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Compute the partial denominator of a tile of rows over one split of the centroids.

    The last split also takes the dense keys: `dense_lse` and the anchors. Where there are many
    splits it has no centroids. denominators: (kv_heads, splits, rows), logarithms to base 2.
    anchor_stride: elements between heads. With DESCRIBED `centroids` is a descriptor.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)  # [ROWS]
    split, head = tl.program_id(1), tl.program_id(2).to(tl.int64)
    dims = tile_columns(D)
    wait_for_previous_launch(OVERLAP)
    release_next_launch(OVERLAP)
    if BINS > 0:
        is_first = (tl.program_id(0) == 0) & (split == 0) & (head == 0)
        bins = tl.arange(0, BINS)
        tl.store(histogram + bins, tl.zeros([BINS], tl.int32), mask=(bins >= 0) & is_first)
    inside = mask_columns(row[:, None] < rows, D)  # [ROWS, WIDTH]
    q = tl.load(query + (head * rows + row[:, None]) * D + dims, mask=inside, other=0.0)
    top = tl.full([ROWS], -1e30, tl.float32)  # finite, so that a row of empty clusters is no nan
    total = tl.zeros([ROWS], tl.float32)
    if split == tl.num_programs(1) - 1:
        dense = tl.load(dense_lse + head * rows + row, mask=row < rows, other=0.0) * LOG2_E
        top = tl.maximum(dense, -1e30)
        total = tl.exp2(dense - top)
        for base in range(0, num_anchors, CLUSTERS):
            anchor = base + tl.arange(0, CLUSTERS)
            exists = anchor < num_anchors
            k = tl.load(
                anchor_keys + head * anchor_stride + anchor[:, None] * D + dims,
                mask=mask_columns(exists[:, None], D),
                other=0.0,
            )  # [CLUSTERS, WIDTH]
            scores = capped_scores(q, k, SCALE, SOFTCAP)
            scores = tl.where(exists[None, :], scores, -float("inf"))
            top, total = _update_sum(scores, top, total)
    first = split * tiles_per_split
    last = tl.minimum(first + tiles_per_split, tl.cdiv(clusters, CLUSTERS))
    lane = tl.arange(0, CLUSTERS)
    if FIXED_MAXIMUM:
        size = _load_sizes_once(offsets, head, first * CLUSTERS + lane, clusters)
        c = _load_centroids(centroids, head, first * CLUSTERS, clusters, D, CLUSTERS, DESCRIBED)
        scores = tl.where((size > 0)[None, :], capped_scores(q, c, SCALE, SOFTCAP), -1e30)
        peak = tl.max(scores, 1)  # [ROWS]
        partial = tl.zeros([ROWS, 8], tl.float32)  # columns of one thread, not yet added up
        for tile in range(first, last):
            c = _load_centroids(centroids, head, tile * CLUSTERS, clusters, D, CLUSTERS, DESCRIBED)
            weight = size.to(tl.float32)
            size = _load_sizes_once(offsets, head, (tile + 1) * CLUSTERS + lane, clusters)
            powers = tl.exp2(capped_scores(q, c, SCALE, SOFTCAP) - peak[:, None]) * weight[None, :]
            partial += tl.sum(tl.reshape(powers, (ROWS, CLUSTERS // 8, 8)), 1)
        fixed = tl.sum(partial, 1)  # [ROWS]
        if tl.min(tl.where((fixed * FITS > 1) & (fixed < FITS), 1, 0), 0) > 0:
            new_top = tl.maximum(top, peak)
            total = total * tl.exp2(top - new_top) + fixed * tl.exp2(peak - new_top)
            top = new_top
            first = last  # the loop below has nothing left to do
    size = load_sizes(offsets, head, first * CLUSTERS + lane, clusters)
    for tile in range(first, last):
        cluster = tile * CLUSTERS + lane  # [CLUSTERS]
        c = _load_centroids(centroids, head, tile * CLUSTERS, clusters, D, CLUSTERS, DESCRIBED)
        weight = tl.where(size > 0, tl.log2(tl.maximum(size, 1).to(tl.float32)), -float("inf"))
        size = load_sizes(offsets, head, cluster + CLUSTERS, clusters)  # one tile ahead
        scores = capped_scores(q, c, SCALE, SOFTCAP) + weight[None, :]
        top, total = _update_sum(scores, top, total)
    target = (head * tl.num_programs(1) + split) * rows + row
    log_total = tl.where(total > 0, top + tl.log2(tl.maximum(total, TINY)), -float("inf"))
    tl.store(denominators + target, log_total, mask=row < rows)


def splits_of_dense_keys(splits: int) -> int:
    """Return how many splits are for the dense keys alone: one, where splits are short.

    Args:
        splits: all splits of the centroids and the dense keys.
    """
    return int(splits > 4)


def even_splits(units: int, tiles: int, programs: int) -> int:
    """Return the number of splits with which `units` times some tiles take least time.

    A program takes as long as its tiles, and one more for its first loads.

    Args:
        units: independent pieces of work, each of which is split: heads x tiles of rows.
        tiles: tiles of centroids of a unit.
        programs: how many programs run at a time.
    """

    def duration(splits: int) -> int:
        per_split = ceil_div(tiles, splits - splits_of_dense_keys(splits))
        return ceil_div(units * splits, programs) * (per_split + 1)

    return min(range(programs // units + 3, 0, -1), key=duration)


def partial_denominators(inputs: SelectTokensInputs, tiles: SelectTiles) -> tuple[Tensor, Tensor]:
    """Compute the logarithm of each row's denominator, by splits of the centroids.

    Args:
        inputs: as of `select_tokens`.
        tiles: of this launch.
    Returns: (kv_heads, splits, rows) fp32, to base 2, of which the last split includes the dense
        keys; and int32 zeros, one for each bin of scores, or none where a threshold is given.
    """
    heads, rows, _ = inputs.query.shape
    clusters = inputs.centroids.shape[1]
    row_tiles, cluster_tiles = ceil_div(rows, tiles.rows), ceil_div(clusters, tiles.clusters)
    splits = even_splits(heads * row_tiles, cluster_tiles, tiles.programs)
    for_dense = splits_of_dense_keys(splits)
    per_split = ceil_div(cluster_tiles, splits - for_dense)
    splits = ceil_div(cluster_tiles, per_split) + for_dense
    denominators = new_tensor(inputs, heads, splits, rows)
    num_bins = NUM_SCORE_BINS if inputs.threshold is None else 0
    histogram = new_tensor(inputs, num_bins, dtype=torch.int32)
    centroids: Tensor | TensorDescriptor = inputs.centroids
    if tiles.fixed_maximum:
        centroids = TensorDescriptor.from_tensor(
            inputs.centroids.flatten(0, 1), [tiles.clusters, power_of_two(inputs.query.shape[2])]
        )
    select_tokens_denominator_kernel[row_tiles, splits, heads](
        inputs.query,
        centroids,
        inputs.offsets,
        inputs.anchor_keys,
        inputs.dense_lse,
        denominators,
        histogram,
        rows,
        clusters,
        inputs.anchor_keys.shape[1],
        inputs.anchor_keys.stride(0),
        per_split,
        **score_arguments(inputs),
        ROWS=tiles.rows,
        CLUSTERS=tiles.clusters,
        FIXED_MAXIMUM=tiles.fixed_maximum,
        DESCRIBED=tiles.fixed_maximum,
        BINS=num_bins,
        num_warps=tiles.warps,
        num_stages=tiles.stages,
        **launch_options(tiles.overlap and can_overlap(denominators.device)),
    )
    return denominators, histogram


def default_denominator_tiles(rows: int) -> SelectTiles:
    """Choose tiles of this launch, as measured on one H200.

    Args:
        rows: rows per KV head.
    """
    tile = min(128, max(16, triton.next_power_of_2(rows)))
    return SelectTiles(
        rows=tile,
        clusters=128,
        programs=264,
        warps=4,
        stages=2,
        fixed_maximum=rows > 64,
        overlap=should_overlap(rows),
    )
