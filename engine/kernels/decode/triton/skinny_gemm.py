"""`matvec` of several vectors in Triton: each program multiplies a few rows of one weight with all.

As in the kernel for one vector, speed depends on how many bytes of weights are being loaded at a
time. Products go through the matrix units: sums of several vectors in registers, as the kernel for
one vector has them, leave no room for loads.
"""

from collections.abc import Sequence
from dataclasses import dataclass

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
    """

    rows: int
    cols: int
    warps: int
    stages: int


# Measured with 4 and 16 vectors (`bench.kernels.product_tiles`): all products of a step take 1 %
# longer than with the best tiles of each shape. Few rows of weights need small tiles, so that there
# are programs for all units.
MANY_ROWS = 8192
TILES = SkinnyTiles(rows=32, cols=256, warps=2, stages=3)
TILES_OF_FEW_ROWS = SkinnyTiles(rows=16, cols=512, warps=2, stages=3)


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
    STAGES: tl.constexpr,
    BIASED: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Multiply ROWS rows of one of the weights with all vectors.

    A row past the end of a weight reads that weight's last row again, and is not stored. The first
    tile is asked for while the previous launch, which writes the vectors, may still be running; it
    is multiplied last, so that nothing waits for it.
    """
    block, weight, bias, n, first = find_weight(
        tl.program_id(0), weight0, weight1, weight2, bias0, bias1, bias2, n0, n1, n2, ROWS
    )
    row, cols, vector = block * ROWS + tl.arange(0, ROWS), tl.arange(0, COLS), tl.arange(0, VECTORS)
    w = weight + tl.minimum(row, n - 1).to(tl.int64)[:, None] * K
    if K >= COLS:
        first_tile = _load_tile(w, cols)
    wait_for_previous_launch(OVERLAP)
    release_next_launch(OVERLAP)
    total = tl.zeros([ROWS, VECTORS], tl.float32)
    for start in tl.range(COLS, K // COLS * COLS, COLS, num_stages=STAGES):
        tile = _load_tile(w, start + cols)
        total = _add_products(tile, x, vector, vectors, start + cols, None, total, K)
    if K % COLS:
        rest = K // COLS * COLS + cols
        tile = tl.load(w + rest[None, :], mask=(rest < K)[None, :], other=0.0)
        total = _add_products(tile, x, vector, vectors, rest, rest < K, total, K)
    if K >= COLS:
        total = _add_products(first_tile, x, vector, vectors, cols, None, total, K)
    if BIASED:
        total += tl.load(bias + row, mask=row < n, other=0.0).to(tl.float32)[:, None]
    tl.store(
        out + first + vector[None, :] * (n0 + n1 + n2) + row[:, None],
        total,
        mask=(row < n)[:, None] & (vector < vectors)[None, :],
    )


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
    tiles = tiles or (TILES if sum(counts) > MANY_ROWS else TILES_OF_FEW_ROWS)
    out = torch.empty(vectors, sum(counts), dtype=x.dtype, device=x.device)
    skinny_gemm_kernel[(sum(ceil_div(count, tiles.rows) for count in counts),)](
        x,
        out,
        *list_weights(weights, biases),
        vectors,
        VECTORS=max(MIN_VECTORS, power_of_two(vectors)),
        K=k,
        ROWS=tiles.rows,
        COLS=max(MIN_COLS, min(tiles.cols, power_of_two(k))),
        STAGES=tiles.stages,
        BIASED=len(biases) > 0,
        num_warps=tiles.warps,
        **launch_options(can_overlap(x.device)),
    )
    return out
