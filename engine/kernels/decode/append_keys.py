"""A token's key and value, put behind a question's others."""

from torch import Tensor

from common.errors import ShapeError


def append_keys(
    keys: Tensor,
    values: Tensor,
    key: Tensor,
    value: Tensor,
    slot: Tensor,
    *,
    overlap: bool = False,
) -> None:
    """Write a token's key and value to their place, on a GPU in one launch.

    Args:
        keys, values: (kv_heads, capacity, head_dim), contiguous; written to.
        key, value: (kv_heads, 1, head_dim), each row contiguous.
        slot: (1,) int64, the place, below the capacity; read on the device alone.
        overlap: start before the last launch has ended; the device can do so
            (`engine.kernels.shared.overlap`).
    Raises: ShapeError if the shapes do not fit.
    """
    heads, _, head_dim = keys.shape
    if keys.shape != values.shape or {key.shape, value.shape} != {(heads, 1, head_dim)}:
        raise ShapeError(f"A token of {tuple(key.shape)} does not fit {tuple(keys.shape)}.")
    if keys.is_cuda:
        from engine.kernels.decode.triton.append_keys import append_keys_triton

        append_keys_triton(keys, values, key, value, slot, overlap=overlap)
    else:
        append_keys_reference(keys, values, key, value, slot)


def append_keys_reference(
    keys: Tensor, values: Tensor, key: Tensor, value: Tensor, slot: Tensor
) -> None:
    """See `append_keys`."""
    keys.index_copy_(1, slot, key)
    values.index_copy_(1, slot, value)
