"""Triton functions for rows of any width.

The sides of Triton's tiles are powers of two; the widths of heads need not be (80, 96, 112, 192). A
tile of rows that are D wide has WIDTH columns: D, rounded up to a power of two. Loads and stores
leave out the columns from D on, so that each row takes D numbers of memory and of bandwidth; in the
tile the other columns are zeros, which change no product. Where D is a power of two nothing of this
is compiled in.
"""

import triton
import triton.language as tl


@triton.jit
def tile_columns(D: tl.constexpr):
    """Return the columns of a tile, 0 to WIDTH - 1: [WIDTH]."""
    return tl.arange(0, triton.next_power_of_2(D))


@triton.jit
def mask_columns(mask, D: tl.constexpr):
    """Return a mask of a tile's rows, [ROWS, 1], without the columns from D on: [ROWS, WIDTH]."""
    if triton.next_power_of_2(D) > D:
        mask = mask & (tile_columns(D) < D)[None, :]
    return mask
