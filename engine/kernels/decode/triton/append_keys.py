"""`append_keys` in Triton: one program for each KV head."""

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.shared.overlap import launch_options
from engine.kernels.shared.sizes import power_of_two
from engine.kernels.shared.triton.overlap import release_next_launch, wait_for_previous_launch


@triton.jit
def append_keys_kernel(
    keys,
    values,
    key,
    value,
    key_stride,
    value_stride,
    slot,
    capacity,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Copy one head's key and value; the strides are in elements, between heads."""
    head, cols = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH)  # [WIDTH]
    inside = cols < D
    wait_for_previous_launch(OVERLAP)
    release_next_launch(OVERLAP)
    offsets = (head * capacity + tl.load(slot)) * D + cols  # [WIDTH]
    tl.store(keys + offsets, tl.load(key + head * key_stride + cols, mask=inside), mask=inside)
    tl.store(
        values + offsets, tl.load(value + head * value_stride + cols, mask=inside), mask=inside
    )


def append_keys_triton(
    keys: Tensor, values: Tensor, key: Tensor, value: Tensor, slot: Tensor, *, overlap: bool = False
) -> None:
    """Launch `append_keys` in Triton.

    Args: as `append_keys`; nothing is checked.
    """
    heads, capacity, head_dim = keys.shape
    append_keys_kernel[(heads,)](
        keys,
        values,
        key,
        value,
        key.stride(0),
        value.stride(0),
        slot,
        capacity,
        D=head_dim,
        WIDTH=power_of_two(head_dim),
        num_warps=1,
        **launch_options(overlap),
    )
