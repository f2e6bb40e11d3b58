"""The partial states of each head, joined with what is attended around them."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.prefill.triton.attend_tokens.tiles import Tiles
from engine.kernels.shared.overlap import can_overlap, launch_options
from engine.kernels.shared.state import State
from engine.kernels.shared.triton.overlap import release, settle
from engine.kernels.shared.triton.tiles import LOG2_E


@triton.jit
def join_kernel(
    part_out,
    part_lse,
    counts,
    around_out,
    around_lse,
    out,
    lse,
    rows,
    heads,
    ranges,
    D: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
    PARTS: tl.constexpr,
    TOKENS: tl.constexpr,
    HEADS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Join a head's partial states with the state of what is attended anyway (lse in nats).

    A program takes some columns of some rows.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    head = tl.program_id(1)
    dims = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    every = tl.arange(0, HEADS)
    here = row < rows
    listed = tl.cdiv(tl.load(counts + every, mask=every < heads, other=0), TOKENS)
    share = tl.maximum(tl.cdiv(tl.sum(listed, 0), ranges), 1)
    end = tl.sum(tl.where(every <= head, listed, 0), 0)
    begin = end - tl.sum(tl.where(every == head, listed, 0), 0)
    at = head.to(tl.int64) * rows + row
    own = tl.load(around_lse + at, mask=here, other=0.0) * LOG2_E
    top = tl.maximum(own, -1e30)
    total = tl.exp2(own - top)
    acc = total[:, None] * tl.load(
        around_out + at[:, None] * D + dims, mask=here[:, None], other=0.0
    ).to(tl.float32)
    past = tl.where(begin < end, tl.cdiv(end, share), 0)  # a head without tokens has no slot
    settle(OVERLAP)
    release(OVERLAP)
    for base in range(begin // share, past, PARTS):
        part = base + tl.arange(0, PARTS)
        there = (part < past)[None, :] & here[:, None]  # [rows, parts]
        slot = (part + head).to(tl.int64)[None, :] * rows + row[:, None]
        more = tl.load(part_lse + slot, mask=there, other=-float("inf"))
        higher = tl.maximum(top, tl.max(more, 1))
        shrink, weight = tl.exp2(top - higher), tl.exp2(more - higher[:, None])
        total = total * shrink + tl.sum(weight, 1)
        value = tl.load(
            part_out + slot[:, :, None] * D + dims, mask=there[:, :, None], other=0.0
        )  # [rows, parts, columns]
        acc = acc * shrink[:, None] + tl.sum(weight[:, :, None] * value, 1)
        top = higher
    safe = tl.where(total > 0, total, 1.0)
    tl.store(out + at[:, None] * D + dims, acc / safe[:, None], mask=here[:, None])
    whole = (top + tl.log2(safe)) / LOG2_E
    tl.store(lse + at, tl.where(total > 0, whole, -float("inf")), mask=here)


def join_parts(parts: State, counts: Tensor, around: State, tiles: Tiles) -> State:
    """Join the partial states of each head, and `around`.

    Neither `around` nor counts are written between `attend_parts` and this
    (`engine.kernels.shared.overlap`).
    """
    heads, rows, head_dim = around.out.shape
    out, lse = torch.empty_like(around.out), torch.empty_like(around.lse)
    columns = min(head_dim, tiles.join_columns)
    join_kernel[triton.cdiv(rows, tiles.join_rows), heads, head_dim // columns](
        parts.out,
        parts.lse,
        counts,
        around.out,
        around.lse,
        out,
        lse,
        rows,
        heads,
        tiles.ranges,
        D=head_dim,
        COLUMNS=columns,
        ROWS=tiles.join_rows,
        PARTS=tiles.join_parts,
        TOKENS=tiles.tokens,
        HEADS=triton.next_power_of_2(heads),
        num_warps=max(1, min(4, tiles.join_rows * tiles.join_parts * columns // (8 * head_dim))),
        **launch_options(tiles.overlap and can_overlap(out.device)),
    )
    return State(out, lse)
