"""The launch of a lookup that finds the threshold which holds a number of tokens."""

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.prefill.select_tokens import LOWEST_THRESHOLD, SelectTokensInputs
from engine.kernels.prefill.triton.select_tokens.scores import (
    BINS_PER_NAT,
    LOWEST,
    NUM_BINS,
    load_sizes,
    new_tensor,
)
from engine.kernels.prefill.triton.select_tokens.tiles import SelectTiles
from engine.kernels.shared.overlap import can_overlap, launch_options
from engine.kernels.shared.triton.overlap import release_next_launch, wait_for_previous_launch

ALL = tl.constexpr(LOWEST_THRESHOLD)


@triton.jit
def find_threshold_kernel(
    histogram,
    num_wanted,
    offsets,
    cluster_scores,
    threshold,
    tile_tokens,
    clusters,
    num_tiles,
    CLUSTERS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Find the threshold, as every program does, and count the tokens that a tile selects.

    histogram: tokens of all heads by bins of scores. num_wanted: of one integer, negative for all.
    tile_tokens: (kv_heads, num_tiles).
    """
    tile, head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    wait_for_previous_launch(OVERLAP)
    release_next_launch(OVERLAP)
    bins, wanted = tl.arange(0, NUM_BINS), tl.load(num_wanted).to(tl.int32)
    reached = tl.cumsum(tl.load(histogram + bins), 0, reverse=True)
    distance = tl.abs(reached - wanted)
    distance = tl.where(reached > 0, distance, 2147483647)
    nearest = tl.max(tl.where(distance == tl.min(distance, 0), bins, 0), 0)
    takes_all = (nearest == 0) | (wanted < 0)
    least = tl.where(takes_all, ALL, LOWEST + nearest.to(tl.float32) / BINS_PER_NAT)
    if (tile == 0) & (head == 0):
        tl.store(threshold, least)
    cluster = tile * CLUSTERS + tl.arange(0, CLUSTERS)
    size = load_sizes(offsets, head, cluster, clusters)
    score = tl.load(cluster_scores + head * clusters + cluster, mask=cluster < clusters, other=ALL)
    selected = tl.sum(tl.where(score >= least, size, 0), 0)
    tl.store(tile_tokens + head * num_tiles + tile, selected)


def find_threshold_and_count(
    inputs: SelectTokensInputs,
    histogram: Tensor,
    cluster_scores: Tensor,
    tile_tokens: Tensor,
    tiles: SelectTiles,
) -> Tensor:
    """Find the threshold for `inputs.num_wanted`, and count the tokens that each tile selects.

    Args:
        inputs: as of `select_tokens`, without a threshold.
        histogram: filled by `aggregate_scores`.
        cluster_scores, tile_tokens: as `aggregate_scores` returns them; the counts are written.
        tiles: those of `aggregate_scores`.
    Returns: the threshold (1,) fp32, as `select_tokens.find_threshold` defines it.
    """
    heads, num_tiles = tile_tokens.shape
    threshold = new_tensor(inputs, 1)
    find_threshold_kernel[num_tiles, heads](
        histogram,
        inputs.num_wanted,
        inputs.offsets,
        cluster_scores,
        threshold,
        tile_tokens,
        cluster_scores.shape[1],
        num_tiles,
        CLUSTERS=tiles.clusters,
        num_warps=4,
        **launch_options(tiles.overlap and can_overlap(cluster_scores.device)),
    )
    return threshold
