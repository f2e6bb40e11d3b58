"""`matvec` in Triton: each program takes a few rows of one weight.

Nothing is reused but the vectors, so speed depends on how many bytes are being loaded at a time: a
program asks for `stages` tiles of `rows` x `cols` before it needs the first, without a mask.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.decode.matvec import MAX_WEIGHTS
from engine.kernels.shared.sizes import ceil_div, power_of_two


@dataclass(frozen=True)
class MatvecTiles:
    """The work of a program.

    Attributes:
        rows: rows of a weight, a power of two.
        cols: columns of a tile, a power of two; narrower weights make it narrower.
        warps: warps of a program.
        stages: tiles that are loaded at a time; with 1, other programs fill the wait for memory.
    """

    rows: int
    cols: int
    warps: int
    stages: int


# One size for all shapes: the products of a token take 0.4 % longer than with the best tiles of
# each shape (`bench.product_tiles`).
TILES = MatvecTiles(rows=2, cols=2048, warps=4, stages=1)


@triton.jit
def _add_products(x, weight, cols, exists, total):
    """Add the products of a tile [ROWS, COLS] with one vector to its sums [ROWS, COLS].

    exists: which columns there are [COLS]; None if all do.
    """
    vector = tl.load(x + cols, mask=exists, other=None if exists is None else 0.0)
    return total + weight.to(tl.float32) * vector.to(tl.float32)[None, :]


@triton.jit
def _add_tile(x, w, cols, exists, sum0, sum1, sum2, sum3, VECTORS: tl.constexpr, K: tl.constexpr):
    """Load a tile of a weight, and add its products with each vector to that one's sums."""
    if exists is None:
        weight = tl.load(w + cols[None, :], eviction_policy="evict_first")
    else:
        weight = tl.load(w + cols[None, :], mask=exists[None, :], other=0.0)
    sum0 = _add_products(x, weight, cols, exists, sum0)
    if VECTORS > 1:
        sum1 = _add_products(x + K, weight, cols, exists, sum1)
    if VECTORS > 2:
        sum2 = _add_products(x + 2 * K, weight, cols, exists, sum2)
    if VECTORS > 3:
        sum3 = _add_products(x + 3 * K, weight, cols, exists, sum3)
    return sum0, sum1, sum2, sum3


@triton.jit
def _store_products(out, bias, row, n, total, BIASED: tl.constexpr):
    """Add up the sums [ROWS, COLS] of one vector, add the bias and store the products [ROWS]."""
    products = tl.sum(total, 1)
    if BIASED:
        products += tl.load(bias + row, mask=row < n, other=0.0).to(tl.float32)
    tl.store(out + row, products, mask=row < n)


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
    """Multiply ROWS rows of one of the weights.

    A row past the end of a weight reads that weight's last row again, and is not stored.
    """
    block, weight, bias, n, first = tl.program_id(0), weight0, bias0, n0, 0
    blocks0 = tl.cdiv(n0, ROWS)
    if block >= blocks0 + tl.cdiv(n1, ROWS):
        block, weight, bias, n, first = (
            block - blocks0 - tl.cdiv(n1, ROWS), weight2, bias2, n2, n0 + n1,
        )  # fmt: skip
    elif block >= blocks0:
        block, weight, bias, n, first = block - blocks0, weight1, bias1, n1, n0
    row, cols = block * ROWS + tl.arange(0, ROWS), tl.arange(0, COLS)  # [ROWS], [COLS]
    w = weight + tl.minimum(row, n - 1).to(tl.int64)[:, None] * K
    sum0 = tl.zeros([ROWS, COLS], tl.float32)
    sum1, sum2, sum3 = sum0, sum0, sum0  # removed by the compiler where there are fewer vectors
    for start in tl.range(0, K // COLS * COLS, COLS, num_stages=STAGES):
        sum0, sum1, sum2, sum3 = _add_tile(
            x, w, start + cols, None, sum0, sum1, sum2, sum3, VECTORS, K
        )  # fmt: skip
    if K % COLS:
        rest = K // COLS * COLS + cols
        sum0, sum1, sum2, sum3 = _add_tile(
            x, w, rest, rest < K, sum0, sum1, sum2, sum3, VECTORS, K
        )  # fmt: skip
    step = n0 + n1 + n2
    _store_products(out + first, bias, row, n, sum0, BIASED)
    if VECTORS > 1:
        _store_products(out + step + first, bias, row, n, sum1, BIASED)
    if VECTORS > 2:
        _store_products(out + 2 * step + first, bias, row, n, sum2, BIASED)
    if VECTORS > 3:
        _store_products(out + 3 * step + first, bias, row, n, sum3, BIASED)


def matvec_triton(
    x: Tensor,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    tiles: MatvecTiles = TILES,
) -> Tensor:
    """Launch `matvec` in Triton.

    Args:
        x, weights, biases: as of `matvec`, with a contiguous x; nothing is checked.
        tiles: the work of a program.
    Returns: as `matvec`.
    """
    vectors, k = x.shape
    counts = [len(weight) for weight in weights]
    out = torch.empty(vectors, sum(counts), dtype=x.dtype, device=x.device)
    absent = MAX_WEIGHTS - len(weights)
    bias_or_any = list(biases or weights)  # without biases the kernel reads none
    matvec_kernel[(sum(ceil_div(count, tiles.rows) for count in counts),)](
        x,
        out,
        *weights,
        *[weights[0]] * absent,
        *bias_or_any,
        *[bias_or_any[0]] * absent,
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
