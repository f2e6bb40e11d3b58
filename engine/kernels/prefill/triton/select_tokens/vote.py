"""The second launch of a lookup: the votes for each cluster."""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from engine.kernels.prefill.triton.select_tokens.question import Question
from engine.kernels.prefill.triton.select_tokens.scores import TINY, capped_scores, sizes_of
from engine.kernels.prefill.triton.select_tokens.tiles import Tiles
from engine.kernels.shared.overlap import can_overlap, launch_options, overlaps
from engine.kernels.shared.triton.overlap import release, settle

AGGREGATIONS = {"max_group_mean": 0, "mean": 1, "max": 2}


@triton.jit
def whole_mass(mass, row, there, head, rows, splits, SPLITS: tl.constexpr):
    """Log mass of some rows over all splits; +inf where there is no row."""
    if SPLITS == 1:
        return tl.load(mass + head * rows + row, mask=there, other=float("inf"))
    else:
        split = tl.arange(0, SPLITS)[:, None]
        parts = tl.load(
            mass + (head * splits + split) * rows + row[None, :],
            mask=(split < splits) & there[None, :],
            other=-float("inf"),
        )
        top = tl.maximum(tl.max(parts, 0), -1e30)  # [rows]
        whole = tl.sum(tl.exp2(parts - top[None, :]), 0)
        return tl.where(there, top + tl.log2(tl.maximum(whole, TINY)), float("inf"))


@triton.jit
def store_votes(
    best,
    size,
    votes,
    tile_tokens,
    least,
    head,
    tile,
    clusters,
    rows,
    group,
    HOW: tl.constexpr,
    CLUSTERS: tl.constexpr,
):
    """Store the votes of a tile of centroids, and how many tokens it keeps."""
    if HOW == 0:
        best = best / group
    elif HOW == 1:
        best = best / rows
    # Finite even where the score underflows, so that a threshold of -1e30 keeps every token.
    vote = tl.where(size > 0, tl.log(tl.maximum(best, TINY)), float("-inf"))
    at = tile * CLUSTERS + tl.arange(0, CLUSTERS)
    tl.store(votes + head * clusters + at, vote, mask=at < clusters)
    kept = tl.sum(tl.where(vote >= least, size, 0), 0)
    tl.store(tile_tokens + head * tl.cdiv(clusters, CLUSTERS) + tile, kept)


@triton.jit
def vote_kernel(
    query,
    centroids,
    offsets,
    mass,
    threshold,
    votes,
    tile_tokens,
    group,
    tokens,
    clusters,
    splits,
    tiles_per_program,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    HOW: tl.constexpr,
    D: tl.constexpr,
    GROUP: tl.constexpr,
    TOKENS: tl.constexpr,
    CLUSTERS: tl.constexpr,
    SPLITS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Aggregated log scores of some tiles of centroids, and how many tokens each tile keeps.

    votes: (kv_heads, clusters); tile_tokens: (kv_heads, tiles). The question is one tile of rows,
    GROUP x TOKENS, which stays on chip while the centroids stream.
    """
    head = tl.program_id(1).to(tl.int64)
    rows = group * tokens
    dims = tl.arange(0, D)
    member, token = tl.arange(0, GROUP * TOKENS) // TOKENS, tl.arange(0, GROUP * TOKENS) % TOKENS
    first = tl.program_id(0) * tiles_per_program
    row = member * tokens + token
    seen = (member < group) & (token < tokens)
    q = tl.load(query + (head * rows + row[:, None]) * D + dims, mask=seen[:, None], other=0.0)
    settle(OVERLAP)  # the mass is made by the launch before, the question was there before it
    release(OVERLAP)
    log_mass = whole_mass(mass, row, seen, head, rows, splits, SPLITS)
    lane = tl.arange(0, CLUSTERS)
    following = sizes_of(offsets, head, first * CLUSTERS + lane, clusters)
    least = tl.load(threshold)
    last = tl.minimum(first + tiles_per_program, tl.cdiv(clusters, CLUSTERS))
    for tile in range(first, last):
        at = tile * CLUSTERS + lane
        c = tl.load(
            centroids + (head * clusters + at[:, None]) * D + dims,
            mask=(at < clusters)[:, None],
            other=0.0,
        )
        size = following
        following = sizes_of(offsets, head, at + CLUSTERS, clusters)  # a tile ahead
        shares = tl.exp2(capped_scores(c, q, SCALE, SOFTCAP) - log_mass[None, :])
        if HOW == 0:
            best = tl.max(tl.sum(tl.reshape(shares, (CLUSTERS, GROUP, TOKENS)), 1), 1)
        elif HOW == 1:
            best = tl.sum(shares, 1)
        else:
            best = tl.max(shares, 1)
        store_votes(
            best, size, votes, tile_tokens, least, head, tile, clusters, rows, group, HOW, CLUSTERS
        )


@triton.jit
def long_vote_kernel(
    query,
    centroids,
    offsets,
    mass,
    threshold,
    votes,
    tile_tokens,
    group,
    tokens,
    clusters,
    splits,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    HOW: tl.constexpr,
    D: tl.constexpr,
    GROUP: tl.constexpr,
    TOKENS: tl.constexpr,
    CLUSTERS: tl.constexpr,
    SPLITS: tl.constexpr,
    LANES: tl.constexpr,
):
    """As `vote_kernel`, of one tile of centroids, which stays on chip while the question streams.

    query: a descriptor of (kv_heads x group, tokens, D). LANES: columns of scores that one thread
    does not compare or add up before the end.
    """
    tile, head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    rows = group * tokens
    member, token = tl.arange(0, GROUP * TOKENS) // TOKENS, tl.arange(0, GROUP * TOKENS) % TOKENS
    at = tile * CLUSTERS + tl.arange(0, CLUSTERS)
    c = tl.load(
        centroids + (head * clusters + at[:, None]) * D + tl.arange(0, D),
        mask=(at < clusters)[:, None],
        other=0.0,
    )
    best = tl.zeros([CLUSTERS, LANES], tl.float32)
    for first in range(0, tokens, TOKENS):
        q = query.load([tl.program_id(1) * group, first, 0]).reshape(GROUP * TOKENS, D)
        seen = (member < group) & (first + token < tokens)
        row = member * tokens + first + token
        log_mass = whole_mass(mass, row, seen, head, rows, splits, SPLITS)
        shares = tl.exp2(capped_scores(c, q, SCALE, SOFTCAP) - log_mass[None, :])
        if HOW == 0:
            said = tl.sum(tl.reshape(shares, (CLUSTERS, GROUP, TOKENS)), 1)
            said = tl.max(tl.reshape(said, (CLUSTERS, TOKENS // LANES, LANES)), 1)
            best = tl.maximum(best, said)
        else:
            shares = tl.reshape(shares, (CLUSTERS, GROUP * TOKENS // LANES, LANES))
            best = best + tl.sum(shares, 1) if HOW == 1 else tl.maximum(best, tl.max(shares, 1))
    said = tl.sum(best, 1) if HOW == 1 else tl.max(best, 1)
    size, least = sizes_of(offsets, head, at, clusters), tl.load(threshold)
    store_votes(
        said, size, votes, tile_tokens, least, head, tile, clusters, rows, group, HOW, CLUSTERS
    )


def vote(question: Question, mass: Tensor, tiles: Tiles) -> tuple[Tensor, Tensor]:
    """Votes (kv_heads, clusters) and how many tokens each tile of clusters keeps.

    The question is not written between `partial_mass` and this (`engine.kernels.shared.overlap`).
    """
    heads, rows, _ = question.query.shape
    clusters, tokens = question.centroids.shape[1], rows // question.group
    group = triton.next_power_of_2(question.group)
    token_tile = max(1, tiles.rows // group)
    num_tiles = triton.cdiv(clusters, tiles.clusters)
    votes = question.empty(heads, clusters)
    tile_tokens = question.empty(heads, num_tiles, dtype=torch.int32)
    read = (question.centroids, question.offsets, mass, question.threshold, votes, tile_tokens)
    sizes = (question.group, tokens, clusters, mass.shape[1])
    compiled_for = {
        **question.fixed(),
        "HOW": AGGREGATIONS[question.how],
        "GROUP": group,
        "TOKENS": token_tile,
        "CLUSTERS": tiles.clusters,
        "SPLITS": triton.next_power_of_2(mass.shape[1]),
        "num_warps": tiles.warps,
        "num_stages": tiles.stages,
    }
    if tokens <= token_tile:
        per_program = triton.cdiv(num_tiles * heads, tiles.programs)
        grid = (triton.cdiv(num_tiles, per_program), heads)
        overlap = launch_options(tiles.overlap and can_overlap(mass.device))
        vote_kernel[grid](question.query, *read, *sizes, per_program, **compiled_for, **overlap)
    else:
        by_member = question.query.view(heads * question.group, tokens, -1)
        query = TensorDescriptor.from_tensor(by_member, [group, token_tile, by_member.shape[2]])
        lanes = min(8, token_tile)
        long_vote_kernel[num_tiles, heads](query, *read, *sizes, **compiled_for, LANES=lanes)
    return votes, tile_tokens


def fitting_vote(rows: int) -> Tiles:
    """Tiles of the second launch for so many rows a head, measured on one H200."""
    if rows > 256:
        return Tiles(rows=128, clusters=128, programs=264, warps=4, stages=2)
    overlap = overlaps(rows)
    if rows > 128:
        return Tiles(rows=256, clusters=64, programs=264, warps=4, stages=1, overlap=overlap)
    tile = max(16, triton.next_power_of_2(rows))
    stages = 3 if rows <= 64 else 2
    return Tiles(rows=tile, clusters=64, programs=396, warps=4, stages=stages, overlap=overlap)
