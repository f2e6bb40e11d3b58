"""The first launch of a lookup: the log mass of each row."""

import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from engine.kernels.prefill.triton.select_tokens.question import Question
from engine.kernels.prefill.triton.select_tokens.scores import TINY, capped_scores, sizes_of
from engine.kernels.prefill.triton.select_tokens.tiles import Tiles
from engine.kernels.shared.overlap import can_overlap, launch_options, overlaps
from engine.kernels.shared.sizes import ceil_div
from engine.kernels.shared.triton.overlap import release, settle
from engine.kernels.shared.triton.tiles import LOG2_E

FITS = tl.constexpr(1e30)  # sums of powers between it and its inverse lost nothing in fp32


@triton.jit
def more_mass(scores, top, total):
    """The highest score of each row and the sum of powers relative to it, with a tile more."""
    higher = tl.maximum(top, tl.max(scores, 1))  # [rows]
    total = total * tl.exp2(top - higher) + tl.sum(tl.exp2(scores - higher[:, None]), 1)
    return higher, total


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
    OVERLAP: tl.constexpr,
):
    """Partial log mass of a tile of rows over one split of the centroids.

    The last split also takes E and the near keys; where there are many it has no centroids.
    mass: (kv_heads, splits, rows); near_stride: elements between heads. With STEADY centroids are a
    descriptor.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    split, head = tl.program_id(1), tl.program_id(2).to(tl.int64)
    dims = tl.arange(0, D)
    settle(OVERLAP)
    release(OVERLAP)
    q = tl.load(
        query + (head * rows + row[:, None]) * D + dims, mask=row[:, None] < rows, other=0.0
    )
    top = tl.full([ROWS], -1e30, tl.float32)  # finite, so that a row of empty clusters is no nan
    total = tl.zeros([ROWS], tl.float32)
    if split == tl.num_programs(1) - 1:
        more = tl.load(extra + head * rows + row, mask=row < rows, other=0.0) * LOG2_E
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
        **launch_options(tiles.overlap and can_overlap(mass.device)),
    )
    return mass


def fitting_mass(rows: int) -> Tiles:
    """Tiles of the first launch for so many rows a head, measured on one H200."""
    tile = min(128, max(16, triton.next_power_of_2(rows)))
    return Tiles(
        rows=tile,
        clusters=128,
        programs=264,
        warps=4,
        stages=2,
        steady=rows > 64,
        overlap=overlaps(rows),
    )
