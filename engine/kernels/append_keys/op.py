"""Contract of `append_keys`."""

from torch import Tensor

from common.errors import ShapeError
from engine.kernels.append_keys.reference import append_keys_reference


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
        overlap: start before the last launch has ended; the device can (`engine.kernels.overlap`).
    Raises: ShapeError if the shapes do not fit.
    """
    heads, _, head_dim = keys.shape
    if keys.shape != values.shape or {key.shape, value.shape} != {(heads, 1, head_dim)}:
        raise ShapeError(f"A token of {tuple(key.shape)} does not fit {tuple(keys.shape)}.")
    if keys.is_cuda:
        from engine.kernels.append_keys.kernel import append_keys_triton

        append_keys_triton(keys, values, key, value, slot, overlap=overlap)
    else:
        append_keys_reference(keys, values, key, value, slot)
