"""Products of large matrices with a few vectors."""

from collections.abc import Sequence

import torch
from torch import Tensor

from common.errors import ShapeError
from engine.kernels.shared.checks import check_contiguous, check_dims

MAX_ROWS, MAX_WEIGHTS = 32, 3


@torch.library.custom_op("lectern::matvec", mutates_args=())
def matvec(x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> Tensor:
    """Multiply a few vectors by one or several matrices, on a GPU in one launch.

    Sums are in fp32 and always in the same order. To a compiler it is one operation.

    Args:
        x: (rows, k), at most `MAX_ROWS` rows; copied if it is strided.
        weights: at most `MAX_WEIGHTS`, each (n, k) in x's dtype, contiguous; none is copied.
        biases: (n,) for each weight, in x's dtype, contiguous; or none at all.
    Returns: (rows, sum of n) in x's dtype; the products with the weights side by side.
    Raises: ShapeError if tensors do not fit together, or if weights or biases are strided.
    """
    rows, k = check_dims("x", x, 2)
    if not 0 < rows <= MAX_ROWS or not 0 < len(weights) <= MAX_WEIGHTS:
        raise ShapeError(f"{rows} rows and {len(weights)} weights are too many, or none.")
    if len(biases) not in (0, len(weights)):
        raise ShapeError(f"{len(biases)} biases for {len(weights)} weights.")
    for weight in weights:
        check_contiguous("weight", weight, (len(weight), k), x.dtype, x.device)
    for weight, bias in zip(weights, biases, strict=False):
        check_contiguous("bias", bias, weight.shape[:1], x.dtype, x.device)
    if x.is_cuda:
        from engine.kernels.decode.triton.matvec import matvec_triton
        from engine.kernels.decode.triton.skinny_gemm import skinny_gemm_triton

        multiply = matvec_triton if rows == 1 else skinny_gemm_triton
        return multiply(x.contiguous(), weights, biases)
    return matvec_reference(x, weights, biases)


def empty_products(
    x: Tensor,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],  # noqa: ARG001
) -> Tensor:
    """Return what `matvec` does without its numbers, for a compiler.

    Args: as `matvec`, but for any number of rows; nothing is checked.
    """
    return x.new_empty(x.shape[0], sum(weight.shape[0] for weight in weights))


matvec.register_fake(empty_products)


def matvec_reference(x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> Tensor:
    """Compute `matvec` in torch, in fp32.

    Args: as `matvec`; nothing is checked.
    Returns: as `matvec`.
    """
    out = torch.cat([x.float() @ weight.float().T for weight in weights], 1)
    if biases:
        out += torch.cat([bias.float() for bias in biases])
    return out.to(x.dtype)
