"""`matvec` of several vectors in Triton: each program multiplies rows of one weight with all.

As in the kernel for one vector, speed depends on how many bytes of weights are being loaded at a
time. Products go through the matrix units: sums of several vectors in registers, as the kernel for
one vector has them, leave no room for loads. Every program loads the vectors as well, so with many
vectors it has so many rows of the weight that these are few beside them. Weights that have too few
rows for that are divided by columns, too (split-K): a second launch adds up the parts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.decode.triton.weight_list import find_weight, list_weights
from engine.kernels.shared.overlap import can_overlap, launch_options
from engine.kernels.shared.sizes import ceil_div, power_of_two
from engine.kernels.shared.triton.overlap import release_next_launch, wait_for_previous_launch

MIN_VECTORS, MIN_COLS = 8, 16  # of a product of the matrix units


@dataclass(frozen=True)
class SkinnyTiles:
    """The work of a program.

    Attributes:
        rows: rows of a weight, a power of two of at least 16.
        cols: columns of a tile, a power of two; narrower weights make it narrower.
        warps: warps of a program.
        stages: tiles that are loaded at a time.
        splits: programs that share the columns of the same rows, if there are as many tiles.
    """

    rows: int
    cols: int
    warps: int
    stages: int
    splits: int = 1


# Measured with 5, 16 and 32 vectors (`bench.kernels.product_tiles`, docs/kernels.md). Where few
# vectors are loaded beside the weights a second launch costs more than it gains.
FEW_VECTORS, MANY_VECTORS = 8, 17  # up to so many, and from so many on
FEW_ROWS = 8192  # of weights, which get small programs, so that there are some for all units
TILES = SkinnyTiles(rows=64, cols=128, warps=4, stages=4)
TILES_OF_MANY_VECTORS = SkinnyTiles(rows=64, cols=128, warps=4, stages=3)
TILES_OF_FEW_VECTORS = SkinnyTiles(rows=32, cols=256, warps=2, stages=3)
TILES_OF_FEW_ROWS = SkinnyTiles(rows=16, cols=512, warps=2, stages=3)  # and few vectors
PROGRAMS = 264  # that an H200 runs at a time, two on each multiprocessor
MIN_TILES = 4  # of a program at least, where columns are divided
ADDED = 512  # numbers that a program of `add_parts_kernel` adds up


def skinny_tiles_for(vectors: int, counts: Sequence[int], k: int, element_size: int) -> SkinnyTiles:
    """Choose tiles for weights that are multiplied in one launch.

    Args:
        vectors: that they are multiplied with.
        counts: rows of each.
        k: their width.
        element_size: bytes of a number.
    """
    if vectors <= FEW_VECTORS:
        return TILES_OF_FEW_ROWS if sum(counts) <= FEW_ROWS else TILES_OF_FEW_VECTORS
    tiles = TILES if vectors < MANY_VECTORS else TILES_OF_MANY_VECTORS
    cols = max(MIN_COLS, 2 * tiles.cols // element_size)
    blocks = sum(ceil_div(count, tiles.rows) for count in counts)
    most = max(1, min(PROGRAMS // blocks, k // cols // MIN_TILES))
    return replace(tiles, cols=cols, splits=1 << (most.bit_length() - 1))


@triton.jit
def _load_tile(w, cols):
    """Load a tile of a weight [ROWS, COLS] whose columns [COLS] all exist."""
    return tl.load(w + cols[None, :], eviction_policy="evict_first")


@triton.jit
def _add_products(weight, x, vector, vectors, cols, exists, total, K: tl.constexpr):
    """Add the products of a tile of a weight with all vectors to the sums [ROWS, VECTORS].

    exists: which columns there are [COLS]; None if all do.
    """
    given = (vector < vectors)[:, None]
    if exists is not None:
        given = given & exists[None, :]
    values = tl.load(x + vector[:, None] * K + cols[None, :], mask=given, other=0.0)
    return tl.dot(weight, tl.trans(values), total, input_precision="ieee")


@triton.jit
def skinny_gemm_kernel(
    x,
    out,
    weight0,
    weight1,
    weight2,
    bias0,
    bias1,
    bias2,
    n0,
    n1,
    n2,
    vectors,
    VECTORS: tl.constexpr,
    K: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    SPLITS: tl.constexpr,
    STAGES: tl.constexpr,
    BIASED: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Multiply ROWS rows of one of the weights, or an equal share of their columns, with all
    vectors; `out` has a part for each of the SPLITS shares.

    A row past the end of a weight reads that weight's last row again, and is not stored. The first
    tile is asked for while the previous launch, which writes the vectors, may still be running; it
    is multiplied last, so that nothing waits for it.
    """
    split = tl.program_id(0) % SPLITS
    block, weight, bias, n, first = find_weight(
        tl.program_id(0) // SPLITS, weight0, weight1, weight2, bias0, bias1, bias2, n0, n1, n2, ROWS
    )
    row, cols, vector = block * ROWS + tl.arange(0, ROWS), tl.arange(0, COLS), tl.arange(0, VECTORS)
    w = weight + tl.minimum(row, n - 1).to(tl.int64)[:, None] * K
    begin, end = split * (K // COLS) // SPLITS * COLS, (split + 1) * (K // COLS) // SPLITS * COLS
    if K >= COLS:
        first_tile = _load_tile(w, begin + cols)
    wait_for_previous_launch(OVERLAP)
    release_next_launch(OVERLAP)
    total = tl.zeros([ROWS, VECTORS], tl.float32)
    for start in tl.range(begin + COLS, end, COLS, num_stages=STAGES):
        tile = _load_tile(w, start + cols)
        total = _add_products(tile, x, vector, vectors, start + cols, None, total, K)
    if K % COLS:
        rest = K // COLS * COLS + cols
        is_rest = (rest < K) & (split == SPLITS - 1)
        tile = tl.load(w + rest[None, :], mask=is_rest[None, :], other=0.0)
        total = _add_products(tile, x, vector, vectors, rest, is_rest, total, K)
    if K >= COLS:
        total = _add_products(first_tile, x, vector, vectors, begin + cols, None, total, K)
    if BIASED:
        is_biased = (row < n) & (split == 0)
        total += tl.load(bias + row, mask=is_biased, other=0.0).to(tl.float32)[:, None]
    width = n0 + n1 + n2
    tl.store(
        out + split * vectors * width + first + vector[None, :] * width + row[:, None],
        total,
        mask=(row < n)[:, None] & (vector < vectors)[None, :],
    )


@triton.jit
def add_parts_kernel(
    parts, out, size, SPLITS: tl.constexpr, BLOCK: tl.constexpr, OVERLAP: tl.constexpr
):
    """Add up BLOCK numbers of the parts (SPLITS, size), in order."""
    wait_for_previous_launch(OVERLAP)
    release_next_launch(OVERLAP)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for split in tl.static_range(SPLITS):
        total += tl.load(parts + split * size + place, mask=place < size, other=0.0)
    tl.store(out + place, total, mask=place < size)


def skinny_gemm_triton(
    x: Tensor,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    tiles: SkinnyTiles | None = None,
) -> Tensor:
    """Launch `matvec` for several vectors in Triton.

    Args:
        x, weights, biases: as of `matvec`, with a contiguous x; nothing is checked.
        tiles: the work of a program; None for what suits the weights.
    Returns: as `matvec`. Launches overlap where the device can (`engine.kernels.shared.overlap`).
    """
    vectors, k = x.shape
    counts = [len(weight) for weight in weights]
    tiles = tiles or skinny_tiles_for(vectors, counts, k, x.element_size())
    cols = max(MIN_COLS, min(tiles.cols, power_of_two(k)))
    splits = max(1, min(tiles.splits, k // cols))
    options = launch_options(can_overlap(x.device))
    out = torch.empty(vectors, sum(counts), dtype=x.dtype, device=x.device)
    parts = out
    if splits > 1:
        parts = torch.empty(splits, *out.shape, dtype=torch.float32, device=x.device)
    blocks = sum(ceil_div(count, tiles.rows) for count in counts)
    skinny_gemm_kernel[(blocks * splits,)](
        x,
        parts,
        *list_weights(weights, biases),
        vectors,
        VECTORS=max(MIN_VECTORS, power_of_two(vectors)),
        K=k,
        ROWS=tiles.rows,
        COLS=cols,
        SPLITS=splits,
        STAGES=tiles.stages,
        BIASED=len(biases) > 0,
        num_warps=tiles.warps,
        **options,
    )
    if splits > 1:
        add_parts_kernel[(ceil_div(out.numel(), ADDED),)](
            parts, out, out.numel(), SPLITS=splits, BLOCK=ADDED, **options
        )
    return out
