"""Partial attention of one range of the listed tokens to a head's rows."""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from engine.kernels.prefill.triton.attend_tokens.pack import pack
from engine.kernels.prefill.triton.attend_tokens.softmax import (
    fold,
    fold_steadily,
    rows_at,
    scores_of,
)
from engine.kernels.prefill.triton.attend_tokens.tiles import Tiles
from engine.kernels.shared.overlap import can_overlap, launch_options
from engine.kernels.shared.state import State
from engine.kernels.shared.triton.overlap import release, settle

FITS = tl.constexpr(1e30)  # sums of weights below it are far from the end of fp32, outputs as well


@triton.jit
def attend_kernel(
    query,
    keys,
    values,
    tokens,
    counts,
    out,
    lse,
    rows,
    heads,
    ranges,
    capacity,
    head_stride,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    TOKENS: tl.constexpr,
    HEADS: tl.constexpr,
    STAGES: tl.constexpr,
    STEADY: tl.constexpr,
    PACKED: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Partial attention of a tile of rows over what one range lists of one head: a slot.

    out: (slots, rows, D) fp32; lse: (slots, rows). head_stride: elements between heads of keys.
    With PACKED keys and values are descriptors of what `pack_kernel` leaves, and no list is read.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    slot = tl.program_id(1)
    dims, lane = tl.arange(0, D), tl.arange(0, TOKENS)
    every = tl.arange(0, HEADS)
    settle(OVERLAP)
    release(OVERLAP)
    listed = tl.load(counts + every, mask=every < heads, other=0)
    tiles = tl.cdiv(listed, TOKENS)
    share = tl.cdiv(tl.sum(tiles, 0), ranges)
    past = tl.cumsum(tiles, 0) - tiles  # tiles of the heads before each
    begin = (slot - every) * share - past
    first, last = tl.maximum(begin, 0), tl.minimum(begin + share, tiles)
    owned = first < last  # by this slot: one head's, or none
    head, before = tl.sum(tl.where(owned, every, 0), 0), tl.sum(tl.where(owned, past, 0), 0)
    count = tl.sum(tl.where(owned, listed, 0), 0)
    first, last = tl.sum(tl.where(owned, first, 0), 0), tl.sum(tl.where(owned, last, 0), 0)
    if first < last:
        base = tl.cast(head, tl.int64)
        q = tl.load(
            query + (base * rows + row[:, None]) * D + dims, mask=row[:, None] < rows, other=0.0
        )
        acc = tl.zeros([ROWS, D], tl.float32)
        top = tl.full([ROWS], -1e30, tl.float32)
        total = tl.zeros([ROWS], tl.float32)
        if not PACKED:
            keys += base * head_stride
            values += base * head_stride
        list_at = tokens + base * capacity + lane
        if STEADY:  # the last tile first, as it may not be full; the highest is taken of it
            end = last - 1
            there = end * TOKENS + lane < count
            if PACKED:
                at = (before + end) * TOKENS
            else:
                at = tl.load(list_at + end * TOKENS, mask=there, other=0)
            scores = scores_of(q, rows_at(keys, at, D, PACKED), SCALE, SOFTCAP)
            scores = tl.where(there[None, :], scores, -float("inf"))
            v = rows_at(values, at, D, PACKED)
            acc, top, total = fold(scores, v, acc, top, total, SCALE, SOFTCAP)
            parts = tl.zeros([ROWS, 8], tl.float32)
            if PACKED:  # two a step: products of scores run while the weights of others are made
                start = first
                if (end - first) % 2 == 1:
                    at = (before + first) * TOKENS
                    scores = scores_of(q, keys.load([at, 0]), SCALE, SOFTCAP)
                    v = values.load([at, 0])
                    acc, top, total = fold(scores, v, acc, top, total, SCALE, SOFTCAP)
                    start += 1
                early = tl.full([ROWS, TOKENS], -float("inf"), tl.float32)
                for tile in tl.range(start, end, 2, num_stages=STAGES):
                    at = (before + tile) * TOKENS
                    scores = scores_of(q, keys.load([at, 0]), SCALE, SOFTCAP)
                    later = scores_of(q, keys.load([at + TOKENS, 0]), SCALE, SOFTCAP)
                    v = values.load([tl.maximum(at - TOKENS, 0), 0])
                    acc, parts = fold_steadily(early, v, acc, top, parts, SCALE, SOFTCAP)
                    v = values.load([at, 0])
                    acc, parts = fold_steadily(scores, v, acc, top, parts, SCALE, SOFTCAP)
                    early = later
                if start < end:
                    v = values.load([(before + end - 1) * TOKENS, 0])
                    acc, parts = fold_steadily(early, v, acc, top, parts, SCALE, SOFTCAP)
            else:
                there = first * TOKENS + lane < count
                token = tl.load(list_at + first * TOKENS, mask=there, other=0)
                for tile in tl.range(first, end, num_stages=STAGES):
                    scores = scores_of(q, rows_at(keys, token, D, PACKED), SCALE, SOFTCAP)
                    v = rows_at(values, token, D, PACKED)
                    acc, parts = fold_steadily(scores, v, acc, top, parts, SCALE, SOFTCAP)
                    # A tile ahead, so that keys never wait for their addresses.
                    there = (tile + 1) * TOKENS + lane < count
                    token = tl.load(list_at + (tile + 1) * TOKENS, mask=there, other=0)
            total += tl.sum(parts, 1)
            if tl.max(tl.where(total < FITS, 0, 1), 0) > 0:
                acc = tl.zeros([ROWS, D], tl.float32)
                top = tl.full([ROWS], -1e30, tl.float32)
                total = tl.zeros([ROWS], tl.float32)
            else:
                first = last
        whole = tl.minimum(last, count // TOKENS)  # only a head's last tile is not full
        if not PACKED:
            there = first * TOKENS + lane < count
            token = tl.load(list_at + first * TOKENS, mask=there, other=0)
        for tile in tl.range(first, whole, num_stages=STAGES):
            at = (before + tile) * TOKENS if PACKED else token
            scores = scores_of(q, rows_at(keys, at, D, PACKED), SCALE, SOFTCAP)
            v = rows_at(values, at, D, PACKED)
            acc, top, total = fold(scores, v, acc, top, total, SCALE, SOFTCAP)
            if not PACKED:
                there = (tile + 1) * TOKENS + lane < count
                token = tl.load(list_at + (tile + 1) * TOKENS, mask=there, other=0)
        if (whole < last) & (first < last):
            at = (before + whole) * TOKENS if PACKED else token
            there = whole * TOKENS + lane < count
            scores = scores_of(q, rows_at(keys, at, D, PACKED), SCALE, SOFTCAP)
            scores = tl.where(there[None, :], scores, -float("inf"))
            v = rows_at(values, at, D, PACKED)
            acc, top, total = fold(scores, v, acc, top, total, SCALE, SOFTCAP)
        at = tl.cast(slot, tl.int64) * rows + row
        tl.store(lse + at, top + tl.log2(total), mask=row < rows)
        tl.store(out + at[:, None] * D + dims, acc / total[:, None], mask=row[:, None] < rows)


def attend_parts(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    tokens: Tensor,
    counts: Tensor,
    *,
    scale: float,
    softcap: float | None,
    tiles: Tiles,
) -> State:
    """Partial states by slot: out (slots, rows, head_dim), lse (slots, rows), fp32, base 2."""
    heads, rows, head_dim = query.shape
    slots = tiles.ranges + heads - 1
    out = torch.empty(slots, rows, head_dim, dtype=torch.float32, device=query.device)
    lse = torch.empty(slots, rows, dtype=torch.float32, device=query.device)
    read: tuple[Tensor | TensorDescriptor, ...] = (keys, values)
    if tiles.packed:
        read = tuple(
            TensorDescriptor.from_tensor(one, [tiles.tokens, head_dim])
            for one in pack(keys, values, tokens, counts, tiles.tokens)
        )
    attend_kernel[triton.cdiv(rows, tiles.rows), slots](
        query,
        *read,
        tokens,
        counts,
        out,
        lse,
        rows,
        heads,
        tiles.ranges,
        tokens.shape[1],
        keys.stride(0),
        SCALE=scale,
        SOFTCAP=softcap or 0.0,
        D=head_dim,
        ROWS=tiles.rows,
        TOKENS=tiles.tokens,
        HEADS=triton.next_power_of_2(heads),
        STAGES=tiles.stages,
        STEADY=tiles.steady and query.dtype != torch.float16,
        PACKED=tiles.packed,
        num_warps=tiles.warps,
        **launch_options(tiles.overlap and can_overlap(query.device)),
    )
    return State(out, lse)
