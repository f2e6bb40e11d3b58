"""`append_rows` in Triton: one program for each row and KV head."""

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.batch.tables import StepTables
from engine.kernels.batch.triton.helpers import LENGTH, NUM_ROWS, PAGE, load_number
from engine.kernels.shared.overlap import launch_options
from engine.kernels.shared.sizes import power_of_two
from engine.kernels.shared.triton.overlap import release_next_launch, wait_for_previous_launch


@triton.jit
def append_rows_kernel(
    keys,
    values,
    key,
    value,
    key_head_stride,
    key_row_stride,
    value_head_stride,
    value_row_stride,
    header,
    rows,
    pages,
    max_pages,
    kv_heads,
    ROWS: tl.constexpr,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Copy one row's key and value of one head."""
    row, head = tl.program_id(0) // kv_heads, tl.program_id(0) % kv_heads
    cols = tl.arange(0, WIDTH)  # [WIDTH]
    place = load_number(rows, LENGTH * ROWS + row) - 1
    exists = row < load_number(header, NUM_ROWS)
    page = tl.load(pages + row * max_pages + place // PAGE, mask=exists, other=0)
    inside = (cols < D) & exists
    wait_for_previous_launch(OVERLAP)
    release_next_launch(OVERLAP)
    to = ((page * kv_heads + head) * PAGE + place % PAGE) * D + cols  # [WIDTH]
    row64, head64 = row.to(tl.int64), head.to(tl.int64)
    new_key = tl.load(
        key + head64 * key_head_stride + row64 * key_row_stride + cols, mask=inside, other=0.0
    )
    new_value = tl.load(
        value + head64 * value_head_stride + row64 * value_row_stride + cols, mask=inside, other=0.0
    )
    tl.store(keys + to, new_key, mask=inside)
    tl.store(values + to, new_value, mask=inside)


def append_rows_triton(
    keys: Tensor,
    values: Tensor,
    key: Tensor,
    value: Tensor,
    tables: StepTables,
    *,
    overlap: bool = False,
) -> None:
    """Launch `append_rows` in Triton.

    Args: as `append_rows`; nothing is checked.
        overlap: start before the previous launch has ended (`engine.kernels.shared.overlap`).
    """
    heads, rows, head_dim = key.shape
    append_rows_kernel[(rows * heads,)](
        keys,
        values,
        key,
        value,
        key.stride(0),
        key.stride(1),
        value.stride(0),
        value.stride(1),
        tables.header,
        tables.rows,
        tables.pages,
        tables.sizes.max_pages,
        heads,
        ROWS=rows,
        D=head_dim,
        WIDTH=power_of_two(head_dim),
        num_warps=1,
        **launch_options(overlap),
    )
