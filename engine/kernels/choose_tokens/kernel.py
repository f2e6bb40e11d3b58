"""`choose_tokens` in Triton: the mass of each row, the votes for each cluster, the tokens chosen.

Three launches, no host synchronisation. Scores are computed twice rather than stored: a block of 64
tokens has four times as many scores as the centroids have elements. Logarithms are to base 2.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from common.errors import InvalidInput
from engine.kernels.choose_tokens.chosen import Chosen
from engine.kernels.decoding.sizes import ceil_div

AGGREGATIONS = {"max_group_mean": 0, "mean": 1, "max": 2}
# A normal number of fp32. Triton takes a smaller one for fp64, and what it is compared with too:
# a vote would then be counted in fp64 and listed in fp32, which differ at the threshold.
TINY = tl.constexpr(1.2e-38)
FITS = tl.constexpr(1e30)  # sums of powers between it and its inverse lost nothing in fp32


@dataclass(frozen=True)
class Tiles:
    """How a launch is cut: rows and clusters of a tile, and programs that share the clusters.

    Attributes:
        rows: of a tile; the vote's are the padded group times some tokens.
        clusters: of a tile.
        programs: over all heads and, for the mass, tiles of rows; the vote of a question of more
            rows than a tile's has one for each tile of clusters.
        steady: of the mass, whether powers are relative to the highest score of the first tile, not
            to the highest so far; where they do not fit, which is rare, they are made again.
    """

    rows: int
    clusters: int
    programs: int
    warps: int
    stages: int
    steady: bool = False


@triton.jit
def capped_scores(a, b, scale: tl.constexpr, SOFTCAP: tl.constexpr):
    """Scaled, capped dot products of the rows of `a` and of `b`, times log2(e)."""
    scores = tl.dot(a, tl.trans(b), input_precision="ieee") * (scale * 1.4426950408889634)
    if SOFTCAP > 0:  # softcap * tanh(score / softcap)
        capped = 1 - 2 / (tl.exp2(scores * (2 / SOFTCAP)) + 1)
        scores = capped * (SOFTCAP * 1.4426950408889634)
    return scores


@triton.jit
def more_mass(scores, top, total):
    """The highest score of each row and the sum of powers relative to it, with a tile more."""
    higher = tl.maximum(top, tl.max(scores, 1))  # [rows]
    total = total * tl.exp2(top - higher) + tl.sum(tl.exp2(scores - higher[:, None]), 1)
    return higher, total


@triton.jit
def sizes_of(offsets, head, at, clusters):
    """Tokens of some clusters of a head; 0 behind the last."""
    edge, there = offsets + head * (clusters + 1) + at, at < clusters
    return tl.load(edge + 1, mask=there, other=0) - tl.load(edge, mask=there, other=0)


@triton.jit
def sizes_once(offsets, head, at, clusters):
    """As `sizes_of`, of one load: where there are more threads than clusters, each loads few."""
    edge = offsets + head * (clusters + 1) + at[:, None] + tl.arange(0, 2)[None, :]
    ends = tl.load(edge, mask=(at < clusters)[:, None], other=0)
    return tl.sum(tl.where(tl.arange(0, 2)[None, :] == 0, -ends, ends), 1)


@triton.jit
def mass_kernel(
    query,
    centroids,
    offsets,
    near,
    extra,
    mass,
    rows,
    clusters,
    num_near,
    near_stride,
    tiles_per_split,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    CLUSTERS: tl.constexpr,
    STEADY: tl.constexpr,
):
    """Partial log mass of a tile of rows over one split of the centroids.

    The last split also takes E and the near keys; where there are many it has no centroids.
    mass: (kv_heads, splits, rows); near_stride: elements between heads. With STEADY centroids are a
    descriptor.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    split, head = tl.program_id(1), tl.program_id(2).to(tl.int64)
    dims = tl.arange(0, D)
    q = tl.load(
        query + (head * rows + row[:, None]) * D + dims, mask=row[:, None] < rows, other=0.0
    )
    top = tl.full([ROWS], -1e30, tl.float32)  # finite, so that a row of empty clusters is no nan
    total = tl.zeros([ROWS], tl.float32)
    if split == tl.num_programs(1) - 1:
        more = tl.load(extra + head * rows + row, mask=row < rows, other=0.0) * 1.4426950408889634
        top = tl.maximum(more, -1e30)
        total = tl.exp2(more - top)
        for base in range(0, num_near, CLUSTERS):
            at = base + tl.arange(0, CLUSTERS)
            there = at < num_near
            k = tl.load(
                near + head * near_stride + at[:, None] * D + dims, mask=there[:, None], other=0.0
            )
            scores = capped_scores(q, k, SCALE, SOFTCAP)
            scores = tl.where(there[None, :], scores, -float("inf"))
            top, total = more_mass(scores, top, total)
    first = split * tiles_per_split
    last = tl.minimum(first + tiles_per_split, tl.cdiv(clusters, CLUSTERS))
    lane = tl.arange(0, CLUSTERS)
    if STEADY:
        flat = (head * clusters).to(tl.int32)
        size = sizes_once(offsets, head, first * CLUSTERS + lane, clusters)
        c = centroids.load([flat + first * CLUSTERS, 0])
        scores = tl.where((size > 0)[None, :], capped_scores(q, c, SCALE, SOFTCAP), -1e30)
        peak = tl.max(scores, 1)
        parts = tl.zeros([ROWS, 8], tl.float32)  # columns that one thread holds, not yet added up
        for tile in range(first, last):
            c = centroids.load([flat + tile * CLUSTERS, 0])
            weight = size.to(tl.float32)
            size = sizes_once(offsets, head, (tile + 1) * CLUSTERS + lane, clusters)
            powers = tl.exp2(capped_scores(q, c, SCALE, SOFTCAP) - peak[:, None]) * weight[None, :]
            parts += tl.sum(tl.reshape(powers, (ROWS, CLUSTERS // 8, 8)), 1)
        some = tl.sum(parts, 1)
        if tl.min(tl.where((some * FITS > 1) & (some < FITS), 1, 0), 0) > 0:
            higher = tl.maximum(top, peak)
            total = total * tl.exp2(top - higher) + some * tl.exp2(peak - higher)
            top = higher
            first = last
    size = sizes_of(offsets, head, first * CLUSTERS + lane, clusters)
    for tile in range(first, last):
        at = tile * CLUSTERS + lane
        if STEADY:
            c = centroids.load([flat + tile * CLUSTERS, 0])
        else:
            c = tl.load(
                centroids + (head * clusters + at[:, None]) * D + dims,
                mask=(at < clusters)[:, None],
                other=0.0,
            )
        weight = tl.where(size > 0, tl.log2(tl.maximum(size, 1).to(tl.float32)), -float("inf"))
        size = sizes_of(offsets, head, at + CLUSTERS, clusters)  # a tile ahead: nothing waits
        top, total = more_mass(capped_scores(q, c, SCALE, SOFTCAP) + weight[None, :], top, total)
    at = (head * tl.num_programs(1) + split) * rows + row
    log_mass = tl.where(total > 0, top + tl.log2(tl.maximum(total, TINY)), -float("inf"))
    tl.store(mass + at, log_mass, mask=row < rows)


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
def settle(
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
        settle(
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
    settle(said, size, votes, tile_tokens, least, head, tile, clusters, rows, group, HOW, CLUSTERS)


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
):
    """List the tokens of a tile's kept clusters behind the near ones and all earlier tiles'."""
    tile, head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    num_tiles = tl.num_programs(0)
    earlier = tl.arange(0, TILES)
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


@dataclass(frozen=True)
class Question:
    """What every launch of a lookup reads; see `choose_tokens`."""

    query: Tensor
    centroids: Tensor
    offsets: Tensor
    threshold: Tensor
    extra_lse: Tensor
    near: Tensor
    group: int
    how: str
    scale: float
    softcap: float | None

    def fixed(self) -> dict[str, float | int]:
        """What the kernels are compiled for."""
        return {"SCALE": self.scale, "SOFTCAP": self.softcap or 0.0, "D": self.query.shape[2]}

    def empty(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """A tensor on the question's device."""
        return torch.empty(shape, dtype=dtype, device=self.query.device)


def near_apart(splits: int) -> int:
    """Splits for E and the near keys alone: 1 where they would keep a short split behind others."""
    return int(splits > 4)


def even_splits(units: int, tiles: int, programs: int) -> int:
    """In how many splits `units` times some tiles take least, so many programs at a time.

    A program takes as long as its tiles and one more, its first look.
    """

    def turns(splits: int) -> int:
        per_split = ceil_div(tiles, splits - near_apart(splits))
        return ceil_div(units * splits, programs) * (per_split + 1)

    return min(range(programs // units + 3, 0, -1), key=turns)


def partial_mass(question: Question, tiles: Tiles) -> Tensor:
    """Log mass of each row by splits of the centroids (kv_heads, splits, rows), base 2."""
    heads, rows, _ = question.query.shape
    clusters = question.centroids.shape[1]
    row_tiles, cluster_tiles = triton.cdiv(rows, tiles.rows), triton.cdiv(clusters, tiles.clusters)
    splits = even_splits(heads * row_tiles, cluster_tiles, tiles.programs)
    apart = near_apart(splits)
    per_split = triton.cdiv(cluster_tiles, splits - apart)
    splits = triton.cdiv(cluster_tiles, per_split) + apart
    mass = question.empty(heads, splits, rows)
    centroids: Tensor | TensorDescriptor = question.centroids
    if tiles.steady:
        centroids = TensorDescriptor.from_tensor(
            question.centroids.flatten(0, 1), [tiles.clusters, question.query.shape[2]]
        )
    mass_kernel[row_tiles, splits, heads](
        question.query,
        centroids,
        question.offsets,
        question.near,
        question.extra_lse,
        mass,
        rows,
        clusters,
        question.near.shape[1],
        question.near.stride(0),
        per_split,
        **question.fixed(),
        ROWS=tiles.rows,
        CLUSTERS=tiles.clusters,
        STEADY=tiles.steady,
        num_warps=tiles.warps,
        num_stages=tiles.stages,
    )
    return mass


def vote(question: Question, mass: Tensor, tiles: Tiles) -> tuple[Tensor, Tensor]:
    """Votes (kv_heads, clusters) and how many tokens each tile of clusters keeps."""
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
        vote_kernel[grid](question.query, *read, *sizes, per_program, **compiled_for)
    else:
        by_member = question.query.view(heads * question.group, tokens, -1)
        query = TensorDescriptor.from_tensor(by_member, [group, token_tile, by_member.shape[2]])
        lanes = min(8, token_tile)
        long_vote_kernel[num_tiles, heads](query, *read, *sizes, **compiled_for, LANES=lanes)
    return votes, tile_tokens


def list_tokens(
    question: Question, votes: Tensor, tile_tokens: Tensor, num_tokens: int, tile: int
) -> tuple[Tensor, Tensor]:
    """The near and the kept clusters' tokens, and how many (kv_heads,); `tile` clusters."""
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
        CLUSTERS=tile,
        TILES=triton.next_power_of_2(num_tiles),
        LANES=16,
        num_warps=4,
    )
    return chosen, counts


def choose_tokens_triton(
    query: Tensor,
    centroids: Tensor,
    offsets: Tensor,
    threshold: Tensor,
    extra_lse: Tensor,
    near: Tensor,
    *,
    num_tokens: int,
    group: int,
    how: str,
    scale: float,
    softcap: float | None,
    mass_tiles: Tiles | None = None,
    vote_tiles: Tiles | None = None,
) -> Chosen:
    """See `choose_tokens`."""
    if how not in AGGREGATIONS:
        raise InvalidInput(f"Aggregation '{how}' is none of {', '.join(AGGREGATIONS)}.")
    question = Question(
        query, centroids, offsets, threshold, extra_lse, near, group, how, scale, softcap
    )
    mass_tiles = mass_tiles or fitting_mass(query.shape[1])
    vote_tiles = vote_tiles or fitting_vote(query.shape[1])
    mass = partial_mass(question, mass_tiles)
    votes, tile_tokens = vote(question, mass, vote_tiles)
    tokens, counts = list_tokens(question, votes, tile_tokens, num_tokens, vote_tiles.clusters)
    return Chosen(tokens, counts, votes)


def fitting_mass(rows: int) -> Tiles:
    """Tiles of the first launch for so many rows a head, measured on one H200."""
    tile = min(128, max(16, triton.next_power_of_2(rows)))
    return Tiles(rows=tile, clusters=128, programs=264, warps=4, stages=2, steady=rows > 64)


def fitting_vote(rows: int) -> Tiles:
    """Tiles of the second launch for so many rows a head, measured on one H200."""
    if rows > 256:
        return Tiles(rows=128, clusters=128, programs=264, warps=4, stages=2)
    if rows > 128:
        return Tiles(rows=256, clusters=64, programs=264, warps=4, stages=1)
    tile = max(16, triton.next_power_of_2(rows))
    return Tiles(rows=tile, clusters=64, programs=396, warps=4, stages=3 if rows <= 64 else 2)
