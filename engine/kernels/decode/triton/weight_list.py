"""The weights that one launch of `matvec` multiplies: which of them a program takes rows of."""

from collections.abc import Sequence

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.decode.matvec import MAX_WEIGHTS


@triton.jit
def find_weight(
    block, weight0, weight1, weight2, bias0, bias1, bias2, n0, n1, n2, ROWS: tl.constexpr
):
    """Find the weight that block `block` of ROWS rows is of.

    Returns: the block within that weight, the weight, its bias, its rows, and the rows of the
        weights before it.
    """
    weight, bias, n, first = weight0, bias0, n0, 0
    blocks0 = tl.cdiv(n0, ROWS)
    if block >= blocks0 + tl.cdiv(n1, ROWS):
        block, weight, bias, n, first = (
            block - blocks0 - tl.cdiv(n1, ROWS), weight2, bias2, n2, n0 + n1,
        )  # fmt: skip
    elif block >= blocks0:
        block, weight, bias, n, first = block - blocks0, weight1, bias1, n1, n0
    return block, weight, bias, n, first


def list_weights(weights: Sequence[Tensor], biases: Sequence[Tensor]) -> list[Tensor | int]:
    """Return a kernel's arguments `weight0` to `n2`.

    Weights that are absent have no rows. Without biases the kernel reads none, whatever stands
    there.
    """
    absent, bias_or_any = MAX_WEIGHTS - len(weights), list(biases or weights)
    return [
        *weights,
        *[weights[0]] * absent,
        *bias_or_any,
        *[bias_or_any[0]] * absent,
        *map(len, weights),
        *[0] * absent,
    ]
