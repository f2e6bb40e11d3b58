"""Products of large matrices with a few vectors."""

from collections.abc import Sequence

import torch
from torch import Tensor

from common.errors import ShapeError

MOST_ROWS, MOST_PARTS = 4, 3


@torch.library.custom_op("lectern::matvec", mutates_args=())
def matvec(x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> Tensor:
    """Multiply a few vectors by one or several matrices, on a GPU in one launch.

    Sums are in fp32 and always in the same order. To a compiler it is one operation.

    Args:
        x: (rows, k), at most `MOST_ROWS` rows; copied if it is strided.
        weights: at most `MOST_PARTS`, each (n, k), contiguous; none is copied.
        biases: of each weight (n,), contiguous; or none at all.
    Returns: (rows, sum of n) in x's dtype; the parts side by side.
    Raises: ShapeError if the shapes or dtypes do not fit.
    """
    rows, k = x.shape
    if not 0 < rows <= MOST_ROWS or not 0 < len(weights) <= MOST_PARTS:
        raise ShapeError(f"{rows} rows and {len(weights)} weights are not for one product.")
    for weight in weights:
        if weight.shape[1:] != (k,) or weight.dtype != x.dtype or not weight.is_contiguous():
            raise ShapeError(f"A weight of {tuple(weight.shape)} for vectors of {k}, or strided.")
    shapes = [weight.shape[:1] for weight in weights]
    if biases and [bias.shape for bias in biases if bias.is_contiguous()] != shapes:
        raise ShapeError(f"Biases of {[tuple(bias.shape) for bias in biases]}, or strided.")
    if x.is_cuda:
        from engine.kernels.decode.triton.matvec import matvec_triton

        return matvec_triton(x.contiguous(), weights, biases)
    return matvec_reference(x, weights, biases)


@matvec.register_fake
def _(
    x: Tensor,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],  # noqa: ARG001
) -> Tensor:
    return x.new_empty(x.shape[0], sum(weight.shape[0] for weight in weights))


def matvec_reference(x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> Tensor:
    """See `matvec`."""
    found = torch.cat([x.float() @ weight.float().T for weight in weights], 1)
    if biases:
        found += torch.cat([bias.float() for bias in biases])
    return found.to(x.dtype)
