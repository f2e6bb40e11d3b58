"""Appending a token's key and value to a question's own."""

import torch
from torch import Tensor

from common.errors import ShapeError
from engine.kernels.shared.checks import check_contiguous, check_dims, check_strided


def append_keys(
    keys: Tensor,
    values: Tensor,
    key: Tensor,
    value: Tensor,
    slot: Tensor,
    *,
    overlap: bool = False,
) -> None:
    """Write a token's key and value into buffers; on a GPU in one launch.

    Args:
        keys, values: (kv_heads, capacity, head_dim), contiguous; written to.
        key, value: (kv_heads, 1, head_dim) in the same dtype; each row is contiguous.
        slot: (1,) int64, the place in the buffers, below the capacity; its value is read on the
            device alone.
        overlap: start before the previous launch has ended; only on a device that can do so
            (`engine.kernels.shared.overlap`).
    Raises: ShapeError if tensors do not fit together or lie in memory in another way than stated.
    """
    heads, capacity, head_dim = check_dims("keys", keys)
    dtype, device = keys.dtype, keys.device
    for name, buffer in (("keys", keys), ("values", values)):
        check_contiguous(name, buffer, (heads, capacity, head_dim), dtype, device)
    for name, row in (("key", key), ("value", value)):
        check_strided(name, row, (heads, 1, head_dim), dtype, device)
        if row.stride(2) != 1:
            raise ShapeError(f"{name} of strides {row.stride()} has rows that are not contiguous.")
    check_contiguous("slot", slot, (1,), torch.int64, device)
    if keys.is_cuda:
        from engine.kernels.decode.triton.append_keys import append_keys_triton

        append_keys_triton(keys, values, key, value, slot, overlap=overlap)
    else:
        append_keys_reference(keys, values, key, value, slot)


def append_keys_reference(
    keys: Tensor, values: Tensor, key: Tensor, value: Tensor, slot: Tensor
) -> None:
    """Compute `append_keys` in torch.

    Args: as `append_keys`; nothing is checked.
    """
    keys.index_copy_(1, slot, key)
    values.index_copy_(1, slot, value)
