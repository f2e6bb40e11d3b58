"""`matvec` in Triton: one program a few rows of one weight.

Nothing is reused but the vectors, so only bytes in flight count: a program asks for `stages` tiles
of `rows` x `cols` before it needs the first, without a mask.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.shared.sizes import ceil_div, power_of_two


@dataclass(frozen=True)
class Tiles:
    """A program's share.

    Attributes:
        rows: of a weight, a power of two.
        cols: of a tile, a power of two; narrower weights make it narrower.
        warps: of a program.
        stages: tiles that are asked for at a time; 1 leaves the waiting to other programs.
    """

    rows: int
    cols: int
    warps: int
    stages: int


MOST_PARTS = 3  # of a launch
# One for all shapes: what a token multiplies takes 0.4 % longer than with the best of each
# (`bench.product_tiles`).
TILES = Tiles(rows=2, cols=2048, warps=4, stages=1)


@triton.jit
def _add(x, weight, cols, keep, total):
    """Add a tile's products with one vector to its sums [rows, cols]; keep None takes all."""
    vector = tl.load(x + cols, mask=keep, other=None if keep is None else 0.0)
    return total + weight.to(tl.float32) * vector.to(tl.float32)[None, :]


@triton.jit
def _tile(x, w, cols, keep, sum0, sum1, sum2, sum3, VECTORS: tl.constexpr, K: tl.constexpr):
    """Add a tile's products with all vectors."""
    if keep is None:
        weight = tl.load(w + cols[None, :], eviction_policy="evict_first")
    else:
        weight = tl.load(w + cols[None, :], mask=keep[None, :], other=0.0)
    sum0 = _add(x, weight, cols, keep, sum0)
    if VECTORS > 1:
        sum1 = _add(x + K, weight, cols, keep, sum1)
    if VECTORS > 2:
        sum2 = _add(x + 2 * K, weight, cols, keep, sum2)
    if VECTORS > 3:
        sum3 = _add(x + 3 * K, weight, cols, keep, sum3)
    return sum0, sum1, sum2, sum3


@triton.jit
def _store(out, bias, row, n, total, BIASED: tl.constexpr):
    """Write the sums of a tile's rows for one vector."""
    found = tl.sum(total, 1)
    if BIASED:
        found += tl.load(bias + row, mask=row < n, other=0.0).to(tl.float32)
    tl.store(out + row, found, mask=row < n)


@triton.jit
def matvec_kernel(
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
    VECTORS: tl.constexpr,
    K: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    STAGES: tl.constexpr,
    BIASED: tl.constexpr,
):
    """Some rows of one part; a row past the part's end is its last one again, and not stored."""
    block, weight, bias, n, first = tl.program_id(0), weight0, bias0, n0, 0
    before = tl.cdiv(n0, ROWS)
    if block >= before + tl.cdiv(n1, ROWS):
        block, weight, bias, n, first = (
            block - before - tl.cdiv(n1, ROWS), weight2, bias2, n2, n0 + n1,
        )  # fmt: skip
    elif block >= before:
        block, weight, bias, n, first = block - before, weight1, bias1, n1, n0
    row, cols = block * ROWS + tl.arange(0, ROWS), tl.arange(0, COLS)
    w = weight + tl.minimum(row, n - 1).to(tl.int64)[:, None] * K
    sum0 = tl.zeros([ROWS, COLS], tl.float32)
    sum1, sum2, sum3 = sum0, sum0, sum0  # gone where there are no such vectors
    for start in tl.range(0, K // COLS * COLS, COLS, num_stages=STAGES):
        sum0, sum1, sum2, sum3 = _tile(
            x, w, start + cols, None, sum0, sum1, sum2, sum3, VECTORS, K
        )  # fmt: skip
    if K % COLS:
        rest = K // COLS * COLS + cols
        sum0, sum1, sum2, sum3 = _tile(
            x, w, rest, rest < K, sum0, sum1, sum2, sum3, VECTORS, K
        )  # fmt: skip
    step = n0 + n1 + n2
    _store(out + first, bias, row, n, sum0, BIASED)
    if VECTORS > 1:
        _store(out + step + first, bias, row, n, sum1, BIASED)
    if VECTORS > 2:
        _store(out + 2 * step + first, bias, row, n, sum2, BIASED)
    if VECTORS > 3:
        _store(out + 3 * step + first, bias, row, n, sum3, BIASED)


def matvec_triton(
    x: Tensor,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    tiles: Tiles = TILES,
) -> Tensor:
    """See `matvec`; x is contiguous."""
    vectors, k = x.shape
    counts = [len(weight) for weight in weights]
    out = torch.empty(vectors, sum(counts), dtype=x.dtype, device=x.device)
    absent = MOST_PARTS - len(weights)
    added = list(biases or weights)
    matvec_kernel[(sum(ceil_div(count, tiles.rows) for count in counts),)](
        x,
        out,
        *weights,
        *[weights[0]] * absent,
        *added,
        *[added[0]] * absent,
        *counts,
        *[0] * absent,
        VECTORS=vectors,
        K=k,
        ROWS=tiles.rows,
        COLS=min(tiles.cols, power_of_two(k)),
        STAGES=tiles.stages,
        BIASED=len(biases) > 0,
        num_warps=tiles.warps,
    )
    return out
