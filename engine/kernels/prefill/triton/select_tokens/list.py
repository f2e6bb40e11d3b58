"""The third launch of a lookup: the tokens of the clusters voted for."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.prefill.triton.select_tokens.question import Question
from engine.kernels.prefill.triton.select_tokens.tiles import Tiles
from engine.kernels.shared.overlap import can_overlap, launch_options
from engine.kernels.shared.triton.overlap import release, settle


@triton.jit
def list_kernel(
    offsets,
    votes,
    threshold,
    tile_tokens,
    chosen,
    counts,
    clusters,
    num_near,
    capacity,
    CLUSTERS: tl.constexpr,
    TILES: tl.constexpr,
    LANES: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """List the tokens of a tile's kept clusters behind the near ones and all earlier tiles'."""
    tile, head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    num_tiles = tl.num_programs(0)
    earlier = tl.arange(0, TILES)
    settle(OVERLAP)
    release(OVERLAP)
    before = tl.load(tile_tokens + head * num_tiles + earlier, mask=earlier < tile, other=0)
    begin = num_near + tl.sum(before, 0)
    if tile == 0:
        for base in range(0, num_near, 128):
            place = base + tl.arange(0, 128)
            tl.store(chosen + head * capacity + place, place, mask=place < num_near)
    at = tile * CLUSTERS + tl.arange(0, CLUSTERS)
    there = at < clusters
    edge = offsets + head * (clusters + 1) + at
    start = tl.load(edge, mask=there, other=0)
    size = tl.load(edge + 1, mask=there, other=0) - start
    vote = tl.load(votes + head * clusters + at, mask=there, other=float("-inf"))
    size = tl.where(vote >= tl.load(threshold), size, 0)
    # Every cluster writes its own tokens, a few at a time: no lane has to ask whose token is its.
    place = begin + tl.cumsum(size, 0) - size
    lane = tl.arange(0, LANES)[None, :]
    place_at = chosen + head * capacity + place[:, None] + lane
    token = num_near + start[:, None] + lane
    for step in range(0, tl.max(size, 0), LANES):
        tl.store(place_at + step, token + step, mask=step + lane < size[:, None])
    if tile == num_tiles - 1:
        tl.store(counts + head, begin + tl.sum(size, 0))


def list_tokens(
    question: Question, votes: Tensor, tile_tokens: Tensor, num_tokens: int, tiles: Tiles
) -> tuple[Tensor, Tensor]:
    """The near and the kept clusters' tokens, and how many (kv_heads,); the vote's tiles."""
    heads, num_tiles = tile_tokens.shape
    num_near = question.near.shape[1]
    capacity = num_near + num_tokens
    chosen = question.empty(heads, capacity, dtype=torch.int32)
    counts = question.empty(heads, dtype=torch.int32)
    list_kernel[num_tiles, heads](
        question.offsets,
        votes,
        question.threshold,
        tile_tokens,
        chosen,
        counts,
        votes.shape[1],
        num_near,
        capacity,
        CLUSTERS=tiles.clusters,
        TILES=triton.next_power_of_2(num_tiles),
        LANES=16,
        num_warps=4,
        **launch_options(tiles.overlap and can_overlap(votes.device)),
    )
    return chosen, counts
