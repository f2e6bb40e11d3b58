"""`merge_states` in Triton: one launch."""

import torch
import triton
import triton.language as tl

from engine.kernels.shared.state import State

ROWS = 16  # of a program


@triton.jit(do_not_specialize=["rows"])
def merge_states_kernel(
    a_out, a_lse, b_out, b_lse, out, lse, rows, D: tl.constexpr, WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    """Merge ROWS rows; the rows of all heads are numbered through."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)  # [ROWS]
    cols = tl.arange(0, WIDTH)  # [WIDTH]
    is_row = row < rows
    a = tl.load(a_lse + row, mask=is_row, other=0.0)
    b = tl.load(b_lse + row, mask=is_row, other=0.0)
    top = tl.maximum(a, b)
    finite_top = tl.where(top == float("-inf"), 0.0, top)  # of rows that have seen no key
    share_a, share_b = tl.exp(a - finite_top), tl.exp(b - finite_top)
    mass = share_a + share_b
    safe_mass = tl.where(mass > 0.0, mass, 1.0)
    offsets = row[:, None] * D + cols[None, :]  # [ROWS, WIDTH]
    inside = is_row[:, None] & (cols < D)[None, :]
    x = tl.load(a_out + offsets, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(b_out + offsets, mask=inside, other=0.0).to(tl.float32)
    joint = (x * share_a[:, None] + y * share_b[:, None]) / safe_mass[:, None]
    tl.store(out + offsets, joint, mask=inside)
    tl.store(
        lse + row,
        tl.where(mass > 0.0, finite_top + tl.log(safe_mass), float("-inf")),
        mask=is_row,
    )


def merge_states_triton(a: State, b: State) -> State:
    """Launch `merge_states` in Triton; strided parts are copied.

    Args: as `merge_states`; nothing is checked.
    Returns: as `merge_states`.
    """
    heads, rows, head_dim = a.out.shape
    out = torch.empty(heads, rows, head_dim, dtype=a.out.dtype, device=a.out.device)
    lse = torch.empty(heads, rows, dtype=torch.float32, device=a.out.device)
    parts = [part.contiguous() for part in (*a, *b)]
    merge_states_kernel[(triton.cdiv(heads * rows, ROWS),)](
        *parts,
        out,
        lse,
        heads * rows,
        D=head_dim,
        WIDTH=triton.next_power_of_2(head_dim),
        ROWS=ROWS,
        num_warps=4,
    )
    return State(out, lse)
