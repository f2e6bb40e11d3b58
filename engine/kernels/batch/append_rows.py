"""Appending the keys and values of a step's tokens to their questions' own."""

from torch import Tensor

from engine.kernels.batch.sizes import PAGE
from engine.kernels.batch.tables import StepTables
from engine.kernels.shared.checks import check_contiguous, check_dims, check_strided


def append_rows(
    keys: Tensor, values: Tensor, key: Tensor, value: Tensor, tables: StepTables
) -> None:
    """Write each row's key and value to its place in its question's pages, in one launch on a GPU.

    Args:
        keys, values: (pages, kv_heads, PAGE, head_dim), contiguous; written to.
        key, value: (kv_heads, rows, head_dim) in the same dtype; each vector is contiguous. Rows
            that the step does not have may hold anything, and are written nowhere.
        tables: which rows there are, and where their pages are.
    Raises: ShapeError if tensors do not fit together or lie in memory in another way than stated.
    """
    pages, heads, _, head_dim = check_dims("keys", keys, 4)
    dtype, device, rows = keys.dtype, keys.device, tables.sizes.rows
    for name, pool in (("keys", keys), ("values", values)):
        check_contiguous(name, pool, (pages, heads, PAGE, head_dim), dtype, device)
    for name, new in (("key", key), ("value", value)):
        check_strided(name, new, (heads, rows, head_dim), dtype, device)
    if keys.is_cuda:
        from engine.kernels.batch.triton.append_rows import append_rows_triton

        append_rows_triton(keys, values, key, value, tables)
    else:
        append_rows_reference(keys, values, key, value, tables)


def append_rows_reference(
    keys: Tensor, values: Tensor, key: Tensor, value: Tensor, tables: StepTables
) -> None:
    """Define `append_rows` in torch, row by row.

    Args: as `append_rows`; nothing is checked.
    """
    for place, row in enumerate(tables.plan):
        page, slot = row.pages[(row.num_keys - 1) // PAGE], (row.num_keys - 1) % PAGE
        keys[page, :, slot] = key[:, place]
        values[page, :, slot] = value[:, place]
