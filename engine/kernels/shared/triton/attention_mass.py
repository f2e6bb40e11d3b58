"""`note_weights` in Triton: one launch over anchors and listed tokens."""

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.shared.attention_mass import Listed
from engine.kernels.shared.sizes import power_of_two
from engine.kernels.shared.triton.tiles import capped

BLOCK = 64  # tokens of a tile
PROGRAMS = 1056  # over all heads: as many as an H200 holds at a time


@triton.jit
def _scores(q, keys, token, seen, scale, D: tl.constexpr, SOFTCAP: tl.constexpr):
    """Scores of keys [ROWS, BLOCK]."""
    at = token.to(tl.int64)[:, None] * D + tl.arange(0, D)[None, :]
    k = tl.load(keys + at, mask=seen[:, None], other=0.0)
    return capped(tl.dot(q, tl.trans(k), input_precision="ieee") * scale, SOFTCAP)


@triton.jit
def note_weights_kernel(
    mass,
    query,
    lse,
    keys,
    key_stride,
    positions,
    num_keys,
    items,
    capacity,
    counts,
    known,
    num_anchors,
    scale,
    GROUP: tl.constexpr,
    ROWS: tl.constexpr,
    D: tl.constexpr,
    PIECE: tl.constexpr,
    BLOCK: tl.constexpr,
    SOFTCAP: tl.constexpr,
    KNOWN: tl.constexpr,
):
    """Program p of a head takes its tiles p, p + programs, ...: first those of the anchors."""
    head = tl.program_id(1)
    row, cols, lane = tl.arange(0, ROWS), tl.arange(0, D), tl.arange(0, BLOCK)
    real = row < GROUP
    at = (head * GROUP + row)[:, None] * D + cols[None, :]
    q = tl.load(query + at, mask=real[:, None], other=0.0)
    whole = tl.load(lse + head * GROUP + row, mask=real, other=float("inf"))
    keys += head.to(tl.int64) * key_stride
    positions += head.to(tl.int64) * num_keys
    items += head.to(tl.int64) * capacity
    known += head.to(tl.int64) * GROUP * (num_keys - num_anchors)
    count = tl.load(counts + head)
    anchor_tiles = tl.cdiv(num_anchors, BLOCK)
    STEP: tl.constexpr = BLOCK // PIECE
    num_tiles = anchor_tiles + tl.cdiv(count, STEP)
    for tile in range(tl.program_id(0), num_tiles, tl.num_programs(0)):
        anchor = tile * BLOCK + lane
        slot = (tile - anchor_tiles) * STEP + lane // PIECE
        there = (tile >= anchor_tiles) & (slot < count)
        item = tl.load(items + slot, mask=there, other=0)
        if PIECE > 1:
            there = there & (lane % PIECE < (item & 31))
            item = (item >> 5) + lane % PIECE
        first = (tile < anchor_tiles) & (anchor < num_anchors)
        seen = there | first
        token = tl.where(first, anchor, num_anchors + item)  # [BLOCK]
        if KNOWN:
            scores = tl.load(
                known + row[:, None] * (num_keys - num_anchors) + item[None, :],
                mask=real[:, None] & there[None, :],
                other=0.0,
            )
            if tile < anchor_tiles:
                scores = _scores(q, keys, token, first, scale, D, SOFTCAP)
        else:
            scores = _scores(q, keys, token, seen, scale, D, SOFTCAP)
        weights = tl.exp(scores - whole[:, None])  # rows beyond the group: exp(-inf)
        squares = tl.sum(weights * weights, 0)
        place = tl.load(positions + token, mask=seen, other=0)
        tl.atomic_add(mass + place, squares, mask=seen, sem="relaxed")


def note_weights_triton(
    mass: Tensor,
    query: Tensor,
    lse: Tensor,
    keys: Tensor,
    positions: Tensor,
    listed: Listed,
    *,
    num_anchors: int,
    scale: float,
    softcap: float | None,
) -> None:
    """See `note_weights`."""
    heads, group, head_dim = query.shape
    note_weights_kernel[(max(1, PROGRAMS // heads), heads)](
        mass,
        query,
        lse,
        keys,
        keys.stride(0),
        positions,
        positions.shape[1],
        listed.items,
        listed.items.shape[1],
        listed.counts,
        lse if listed.scores is None else listed.scores,
        num_anchors,
        scale,
        GROUP=group,
        ROWS=max(16, power_of_two(group)),
        D=head_dim,
        PIECE=listed.piece,
        BLOCK=BLOCK,
        SOFTCAP=softcap,
        KNOWN=listed.scores is not None,
        num_warps=4,
    )
