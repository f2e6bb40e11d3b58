"""Checks of the tensors that an operation is given.

They look at metadata on the host alone (shape, dtype, device, strides), never at values, so that a
check costs about a microsecond and does not wait for a GPU.
"""

import torch
from torch import Tensor

from common.errors import ShapeError

Shape = tuple[int, ...]


def check_dims(name: str, tensor: Tensor, num_dims: int = 3) -> Shape:
    """Check a floating-point tensor whose sizes are free, before they are used.

    Args:
        name: what the message of an error calls it.
        num_dims: how many dimensions it must have.
    Returns: its shape.
    Raises: ShapeError if it has other dimensions, or holds no floating-point numbers.
    """
    if tensor.ndim != num_dims or not tensor.is_floating_point():
        raise ShapeError(
            f"{name} of shape {tuple(tensor.shape)} in {tensor.dtype} is not a floating-point "
            f"tensor of {num_dims} dimensions."
        )
    return tensor.shape


def check_strided(
    name: str, tensor: Tensor, shape: Shape, dtype: torch.dtype, device: torch.device
) -> None:
    """Check a tensor that may lie in memory in any way.

    Args:
        name: what the message of an error calls it.
        shape, dtype, device: what it must have.
    Raises: ShapeError if one of the three differs.
    """
    if tensor.shape != shape or tensor.dtype != dtype or tensor.device != device:
        raise ShapeError(
            f"{name} is {tuple(tensor.shape)} in {tensor.dtype} on {tensor.device}, but must be "
            f"{tuple(shape)} in {dtype} on {device}."
        )


def check_contiguous(
    name: str, tensor: Tensor, shape: Shape, dtype: torch.dtype, device: torch.device
) -> None:
    """Check a tensor that must be contiguous.

    Args:
        name, shape, dtype, device: as of `check_strided`.
    Raises: ShapeError if one of these differs, or if the tensor is strided.
    """
    check_strided(name, tensor, shape, dtype, device)
    if not tensor.is_contiguous():
        raise ShapeError(f"{name} of strides {tensor.stride()} is not contiguous.")


def check_heads(
    name: str, tensor: Tensor, shape: Shape, dtype: torch.dtype, device: torch.device
) -> None:
    """Check a tensor of which each head must be contiguous, however far heads are apart.

    A slice of some tokens of every head is such a tensor.

    Args:
        name, dtype, device: as of `check_strided`.
        shape: (heads, rows, width).
    Raises: ShapeError if one of these differs, or if rows of a head are strided.
    """
    check_strided(name, tensor, shape, dtype, device)
    _, row_stride, stride = tensor.stride()
    if stride != 1 or (row_stride != shape[2] and shape[1] > 1):
        raise ShapeError(f"{name} of strides {tensor.stride()} has heads that are not contiguous.")


def check_values(keys: Tensor, values: Tensor, device: torch.device) -> None:
    """Check that values lie in memory as their keys do.

    Args:
        keys, values: of any shape; the keys have been checked.
        device: the device that the values must be on.
    Raises: ShapeError if shape, dtype, device or strides differ.
    """
    check_strided("values", values, keys.shape, keys.dtype, device)
    if values.stride() != keys.stride():
        raise ShapeError(
            f"Values of strides {values.stride()} lie unlike their keys, {keys.stride()}."
        )


def check_broadcastable(
    name: str, tensor: Tensor, shape: Shape, dtype: torch.dtype, device: torch.device
) -> None:
    """Check a tensor that is expanded to a shape.

    Args:
        name, dtype, device: as of `check_strided`.
        shape: what it is expanded to.
    Raises: ShapeError if it cannot be expanded to that shape, or if dtype or device differ.
    """
    missing = len(shape) - tensor.ndim
    fits = missing >= 0 and all(
        size in (1, wanted) for size, wanted in zip(tensor.shape, shape[missing:], strict=True)
    )
    if not fits or tensor.dtype != dtype or tensor.device != device:
        raise ShapeError(
            f"{name} is {tuple(tensor.shape)} in {tensor.dtype} on {tensor.device}, which does not "
            f"broadcast to {tuple(shape)} in {dtype} on {device}."
        )
