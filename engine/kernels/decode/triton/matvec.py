"""`matvec` of one vector in Triton: each program takes a few rows of one weight.

Nothing is reused but the vector, so speed depends on how many bytes are being loaded at a time: a
program asks for `stages` tiles of `rows` x `cols` before it needs the first, without a mask.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.decode.triton.weight_list import find_weight, list_weights
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
def _add_tile(x, w, cols, exists, total):
    """Load a tile of a weight, and add its products with the vector to the sums [ROWS, COLS].

    cols: of the tile [COLS]. exists: which of them there are; None if all do.
    """
    if exists is None:
        weight = tl.load(w + cols[None, :], eviction_policy="evict_first")
        vector = tl.load(x + cols)
    else:
        weight = tl.load(w + cols[None, :], mask=exists[None, :], other=0.0)
        vector = tl.load(x + cols, mask=exists, other=0.0)
    return total + weight.to(tl.float32) * vector.to(tl.float32)[None, :]


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
    K: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    STAGES: tl.constexpr,
    BIASED: tl.constexpr,
):
    """Multiply ROWS rows of one of the weights.

    A row past the end of a weight reads that weight's last row again, and is not stored.
    """
    block, weight, bias, n, first = find_weight(
        tl.program_id(0), weight0, weight1, weight2, bias0, bias1, bias2, n0, n1, n2, ROWS
    )
    row, cols = block * ROWS + tl.arange(0, ROWS), tl.arange(0, COLS)  # [ROWS], [COLS]
    w = weight + tl.minimum(row, n - 1).to(tl.int64)[:, None] * K
    total = tl.zeros([ROWS, COLS], tl.float32)
    for start in tl.range(0, K // COLS * COLS, COLS, num_stages=STAGES):
        total = _add_tile(x, w, start + cols, None, total)
    if K % COLS:
        rest = K // COLS * COLS + cols
        total = _add_tile(x, w, rest, rest < K, total)
    products = tl.sum(total, 1)
    if BIASED:
        products += tl.load(bias + row, mask=row < n, other=0.0).to(tl.float32)
    tl.store(out + first + row, products, mask=row < n)


def matvec_triton(
    x: Tensor,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    tiles: MatvecTiles = TILES,
) -> Tensor:
    """Launch `matvec` for one vector in Triton.

    Args:
        x, weights, biases: as of `matvec`, with a contiguous x of one row; nothing is checked.
        tiles: the work of a program.
    Returns: as `matvec`.
    """
    k = x.shape[1]
    counts = [len(weight) for weight in weights]
    out = torch.empty(1, sum(counts), dtype=x.dtype, device=x.device)
    matvec_kernel[(sum(ceil_div(count, tiles.rows) for count in counts),)](
        x,
        out,
        *list_weights(weights, biases),
        K=k,
        ROWS=tiles.rows,
        COLS=min(tiles.cols, power_of_two(k)),
        STAGES=tiles.stages,
        BIASED=len(biases) > 0,
        num_warps=tiles.warps,
    )
    return out
