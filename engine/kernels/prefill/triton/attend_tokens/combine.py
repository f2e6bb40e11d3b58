"""The partial states of each head are combined, and merged with the dense state."""

import math

import torch
import triton
import triton.language as tl

from engine.kernels.prefill.attend_tokens import AttendTokensInputs
from engine.kernels.prefill.triton.attend_tokens.tiles import AttendTiles
from engine.kernels.shared.overlap import can_overlap, launch_options
from engine.kernels.shared.sizes import power_of_two
from engine.kernels.shared.state import State
from engine.kernels.shared.triton.online_softmax import LOG2_E
from engine.kernels.shared.triton.overlap import release_next_launch, wait_for_previous_launch


@triton.jit
def attend_tokens_combine_kernel(
    split_out,
    split_lse,
    counts,
    dense_out,
    dense_lse,
    out,
    lse,
    rows,
    heads,
    splits,
    D: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
    SPLITS: tl.constexpr,
    TOKENS: tl.constexpr,
    HEADS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Combine COLUMNS columns of ROWS rows of a head: the dense state, then the partial states.

    split_out: (slots, rows, D) fp32; split_lse: (slots, rows) to base 2, by slot as of
    `attend_splits`. dense_lse and lse: in nats. `out` may be `dense_out`.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)  # [ROWS]
    head = tl.program_id(1)
    dims = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)  # [COLUMNS]
    every_head = tl.arange(0, HEADS)
    is_row = row < rows
    tiles = tl.cdiv(tl.load(counts + every_head, mask=every_head < heads, other=0), TOKENS)
    share = tl.maximum(tl.cdiv(tl.sum(tiles, 0), splits), 1)
    end = tl.sum(tl.where(every_head <= head, tiles, 0), 0)
    begin = end - tl.sum(tl.where(every_head == head, tiles, 0), 0)
    target = head.to(tl.int64) * rows + row
    dense = tl.load(dense_lse + target, mask=is_row, other=0.0) * LOG2_E
    top = tl.maximum(dense, -1e30)
    total = tl.exp2(dense - top)
    acc = total[:, None] * tl.load(
        dense_out + target[:, None] * D + dims, mask=is_row[:, None], other=0.0
    ).to(tl.float32)  # [ROWS, COLUMNS]
    has_work = (begin < end) & (tl.program_id(0) * ROWS < rows)
    last = tl.where(has_work, tl.cdiv(end, share), 0)  # a head without tokens has no slot
    wait_for_previous_launch(OVERLAP)
    release_next_launch(OVERLAP)
    for base in range(begin // share, last, SPLITS):
        split = base + tl.arange(0, SPLITS)
        exists = (split < last)[None, :] & is_row[:, None]  # [ROWS, SPLITS]
        slot = (split + head).to(tl.int64)[None, :] * rows + row[:, None]
        lses = tl.load(split_lse + slot, mask=exists, other=-float("inf"))
        new_top = tl.maximum(top, tl.max(lses, 1))
        rescale, weights = tl.exp2(top - new_top), tl.exp2(lses - new_top[:, None])
        total = total * rescale + tl.sum(weights, 1)
        value = tl.load(
            split_out + slot[:, :, None] * D + dims, mask=exists[:, :, None], other=0.0
        )  # [ROWS, SPLITS, COLUMNS]
        acc = acc * rescale[:, None] + tl.sum(weights[:, :, None] * value, 1)
        top = new_top
    safe_total = tl.where(total > 0, total, 1.0)
    tl.store(out + target[:, None] * D + dims, acc / safe_total[:, None], mask=is_row[:, None])
    row_lse = (top + tl.log2(safe_total)) / LOG2_E
    tl.store(lse + target, tl.where(total > 0, row_lse, -float("inf")), mask=is_row)


def combine_splits(inputs: AttendTokensInputs, splits: State, tiles: AttendTiles) -> State:
    """Combine the partial states of each head, and merge them with the dense state.

    Neither the dense state nor the counts are written between `attend_splits` and this launch
    (`engine.kernels.shared.overlap`).

    Args:
        inputs: as of `attend_tokens`.
        splits: as `attend_splits` returns them, with the same tiles.
        tiles: the division of the work.
    Returns: the joint state, in nats.
    """
    dense = inputs.dense_state
    heads, rows, head_dim = dense.out.shape
    out, lse = torch.empty_like(dense.out), torch.empty_like(dense.lse)
    columns = math.gcd(head_dim, tiles.combine_columns)
    elements = tiles.combine_rows * tiles.combine_splits * columns
    attend_tokens_combine_kernel[triton.cdiv(rows, tiles.combine_rows), heads, head_dim // columns](
        splits.out,
        splits.lse,
        inputs.counts,
        dense.out,
        dense.lse,
        out,
        lse,
        rows,
        heads,
        tiles.splits,
        D=head_dim,
        COLUMNS=columns,
        ROWS=tiles.combine_rows,
        SPLITS=tiles.combine_splits,
        TOKENS=tiles.tokens,
        HEADS=triton.next_power_of_2(heads),
        num_warps=max(1, min(4, elements // (8 * power_of_two(head_dim)))),
        **launch_options(tiles.overlap and can_overlap(out.device)),
    )
    return State(out, lse)
