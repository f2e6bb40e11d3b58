"""The last launch of a lookup: the tokens of the selected clusters are listed."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.prefill.select_tokens import SelectTokensInputs
from engine.kernels.prefill.triton.select_tokens.scores import new_tensor
from engine.kernels.prefill.triton.select_tokens.tiles import SelectTiles
from engine.kernels.shared.overlap import can_overlap, launch_options
from engine.kernels.shared.triton.overlap import release_next_launch, wait_for_previous_launch


@triton.jit
def select_tokens_list_kernel(
    offsets,
    cluster_scores,
    threshold,
    tile_tokens,
    selected,
    counts,
    clusters,
    num_anchors,
    capacity,
    num_tiles,
    CLUSTERS: tl.constexpr,
    TILES: tl.constexpr,
    LANES: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """List the tokens of a tile's selected clusters, behind the anchors and all earlier tiles'.

    tile_tokens: (kv_heads, num_tiles), how many tokens each tile selects. selected: (kv_heads,
    capacity); counts: (kv_heads,).
    """
    tile, head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    earlier = tl.arange(0, TILES)
    wait_for_previous_launch(OVERLAP)
    release_next_launch(OVERLAP)
    before = tl.load(tile_tokens + head * num_tiles + earlier, mask=earlier < tile, other=0)
    begin = num_anchors + tl.sum(before, 0)
    if tile == 0:
        for base in range(0, num_anchors, 128):
            anchor = base + tl.arange(0, 128)
            tl.store(selected + head * capacity + anchor, anchor, mask=anchor < num_anchors)
    cluster = tile * CLUSTERS + tl.arange(0, CLUSTERS)  # [CLUSTERS]
    exists = cluster < clusters
    edge = offsets + head * (clusters + 1) + cluster
    start = tl.load(edge, mask=exists, other=0)
    size = tl.load(edge + 1, mask=exists, other=0) - start
    score = tl.load(cluster_scores + head * clusters + cluster, mask=exists, other=float("-inf"))
    size = tl.where(score >= tl.load(threshold), size, 0)
    # Every cluster writes its own tokens, LANES at a time: no lane has to find out whose token is
    # its own.
    place = begin + tl.cumsum(size, 0) - size  # [CLUSTERS]
    lane = tl.arange(0, LANES)[None, :]
    target = selected + head * capacity + place[:, None] + lane  # [CLUSTERS, LANES]
    token = num_anchors + start[:, None] + lane
    for step in range(0, tl.max(size, 0), LANES):
        tl.store(target + step, token + step, mask=step + lane < size[:, None])
    if tile == num_tiles - 1:
        tl.store(counts + head, begin + tl.sum(size, 0))


def list_tokens(
    inputs: SelectTokensInputs,
    cluster_scores: Tensor,
    tile_tokens: Tensor,
    threshold: Tensor,
    tiles: SelectTiles,
) -> tuple[Tensor, Tensor]:
    """List the anchors and the tokens of the selected clusters.

    Args:
        inputs: as of `select_tokens`.
        cluster_scores: as `aggregate_scores` returns them.
        tile_tokens: how many tokens each tile selects.
        threshold: a score that selected clusters reach, fp32, of one element.
        tiles: those of `aggregate_scores`.
    Returns: the lists (kv_heads, anchors + clustered tokens) int32, and how many entries of each
        are valid (kv_heads,) int32.
    """
    heads, num_tiles = tile_tokens.shape
    num_anchors = inputs.anchor_keys.shape[1]
    capacity = num_anchors + inputs.num_tokens
    selected = new_tensor(inputs, heads, capacity, dtype=torch.int32)
    counts = new_tensor(inputs, heads, dtype=torch.int32)
    select_tokens_list_kernel[num_tiles, heads](
        inputs.offsets,
        cluster_scores,
        threshold,
        tile_tokens,
        selected,
        counts,
        cluster_scores.shape[1],
        num_anchors,
        capacity,
        num_tiles,
        CLUSTERS=tiles.clusters,
        TILES=triton.next_power_of_2(num_tiles),
        LANES=16,
        num_warps=4,
        **launch_options(tiles.overlap and can_overlap(cluster_scores.device)),
    )
    return selected, counts
