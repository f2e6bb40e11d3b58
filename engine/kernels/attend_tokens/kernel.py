"""`attend_tokens` in Triton: work cut evenly over heads of very different sizes, then merged.

The tiles of listed tokens of all heads are laid end to end and cut into equal ranges, whose ends
the device reads from the counts: the host never waits. A range that spans heads leaves a partial
state in each; range p and head h own slot p + h, as along the ranges one of the two always grows.
Logarithms are to base 2.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.state import State


@dataclass(frozen=True)
class Tiles:
    """How the work is cut.

    Attributes:
        rows, tokens: of a tile.
        ranges: equal shares of the listed tokens.
        max_registers: a thread; None leaves it to the compiler.
        join_rows: rows that a program joins.
        join_parts: states of each that it loads at once.
    """

    rows: int = 128
    tokens: int = 64
    ranges: int = 132
    warps: int = 8
    stages: int = 5
    max_registers: int | None = None
    join_rows: int = 1
    join_parts: int = 32


@triton.jit
def scores_of(q, k, SCALE: tl.constexpr, SOFTCAP: tl.constexpr):
    """Dot products; where they are capped, scaled and times log2(e)."""
    scores = tl.dot(q, tl.trans(k), input_precision="ieee")
    if SOFTCAP > 0:  # softcap * tanh(score / softcap)
        capped = 1 - 2 / (tl.exp2(scores * (SCALE * 1.4426950408889634 * 2 / SOFTCAP)) + 1)
        scores = capped * (SOFTCAP * 1.4426950408889634)
    return scores


@triton.jit
def fold(scores, v, acc, top, total, SCALE: tl.constexpr, SOFTCAP: tl.constexpr):
    """Online softmax: one more tile of `scores_of` and of values into the running state.

    The scale is a factor of what is subtracted from: one instruction for both.
    """
    factor: tl.constexpr = 1.0 if SOFTCAP > 0 else SCALE * 1.4426950408889634
    higher = tl.maximum(top, tl.max(scores, 1) * factor)  # [rows]
    weights = tl.exp2(scores * factor - higher[:, None])
    shrink = tl.exp2(top - higher)
    total = total * shrink + tl.sum(weights, 1)
    acc = tl.dot(weights.to(v.dtype), v, acc * shrink[:, None], input_precision="ieee")
    return acc, higher, total


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
    capacity,
    head_stride,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    TOKENS: tl.constexpr,
    HEADS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Partial attention of a tile of rows over one range of listed tokens.

    out: (slots, rows, D) fp32; lse: (slots, rows). head_stride: elements between heads of keys.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    part = tl.program_id(1)
    dims, lane = tl.arange(0, D), tl.arange(0, TOKENS)
    every = tl.arange(0, HEADS)
    listed = tl.load(counts + every, mask=every < heads, other=0)
    share = tl.cdiv(tl.sum(tl.cdiv(listed, TOKENS), 0), tl.num_programs(1))
    begin = part * share
    for head in range(0, heads):
        count = tl.load(counts + head)
        head_tiles = tl.cdiv(count, TOKENS)
        first = tl.maximum(begin, 0)
        last = tl.minimum(begin + share, head_tiles)
        if first < last:
            base = tl.cast(head, tl.int64)
            q = tl.load(
                query + (base * rows + row[:, None]) * D + dims,
                mask=row[:, None] < rows,
                other=0.0,
            )
            k_base, v_base = keys + base * head_stride, values + base * head_stride
            list_at = tokens + base * capacity + lane
            acc = tl.zeros([ROWS, D], tl.float32)
            top = tl.full([ROWS], -1e30, tl.float32)
            total = tl.zeros([ROWS], tl.float32)
            place = first * TOKENS + lane
            token = tl.load(list_at + first * TOKENS, mask=place < count, other=0)
            whole = tl.minimum(last, count // TOKENS)  # only a head's last tile is not full
            for tile in tl.range(first, whole, num_stages=STAGES):
                at = token[:, None] * D + dims
                scores = scores_of(q, tl.load(k_base + at), SCALE, SOFTCAP)
                v = tl.load(v_base + at)
                acc, top, total = fold(scores, v, acc, top, total, SCALE, SOFTCAP)
                # A tile ahead, so that keys never wait for their addresses.
                place = (tile + 1) * TOKENS
                token = tl.load(list_at + place, mask=place + lane < count, other=0)
            if whole < last:
                at = token[:, None] * D + dims
                scores = scores_of(q, tl.load(k_base + at), SCALE, SOFTCAP)
                there = whole * TOKENS + lane < count
                scores = tl.where(there[None, :], scores, -float("inf"))
                v = tl.load(v_base + at)
                acc, top, total = fold(scores, v, acc, top, total, SCALE, SOFTCAP)
            at = (part + base) * rows + row
            tl.store(lse + at, top + tl.log2(total), mask=row < rows)
            tl.store(out + at[:, None] * D + dims, acc / total[:, None], mask=row[:, None] < rows)
        begin -= head_tiles


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
    ROWS: tl.constexpr,
    PARTS: tl.constexpr,
    TOKENS: tl.constexpr,
    HEADS: tl.constexpr,
):
    """Join a head's partial states with the state of what is attended anyway (lse in nats)."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    head = tl.program_id(1)
    dims, every = tl.arange(0, D), tl.arange(0, HEADS)
    here = row < rows
    listed = tl.cdiv(tl.load(counts + every, mask=every < heads, other=0), TOKENS)
    share = tl.maximum(tl.cdiv(tl.sum(listed, 0), ranges), 1)
    end = tl.sum(tl.where(every <= head, listed, 0), 0)
    begin = end - tl.sum(tl.where(every == head, listed, 0), 0)
    at = head.to(tl.int64) * rows + row
    own = tl.load(around_lse + at, mask=here, other=0.0) * 1.4426950408889634
    top = tl.maximum(own, -1e30)
    total = tl.exp2(own - top)
    acc = total[:, None] * tl.load(
        around_out + at[:, None] * D + dims, mask=here[:, None], other=0.0
    ).to(tl.float32)
    past = tl.where(begin < end, tl.cdiv(end, share), 0)  # a head without tokens has no slot
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
        )  # [rows, parts, D]
        acc = acc * shrink[:, None] + tl.sum(weight[:, :, None] * value, 1)
        top = higher
    safe = tl.where(total > 0, total, 1.0)
    tl.store(out + at[:, None] * D + dims, acc / safe[:, None], mask=here[:, None])
    whole = (top + tl.log2(safe)) / 1.4426950408889634
    tl.store(lse + at, tl.where(total > 0, whole, -float("inf")), mask=here)


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
    attend_kernel[triton.cdiv(rows, tiles.rows), tiles.ranges](
        query,
        keys,
        values,
        tokens,
        counts,
        out,
        lse,
        rows,
        heads,
        tokens.shape[1],
        keys.stride(0),
        SCALE=scale,
        SOFTCAP=softcap or 0.0,
        D=head_dim,
        ROWS=tiles.rows,
        TOKENS=tiles.tokens,
        HEADS=triton.next_power_of_2(heads),
        STAGES=tiles.stages,
        num_warps=tiles.warps,
        maxnreg=tiles.max_registers,
    )
    return State(out, lse)


def join_parts(parts: State, counts: Tensor, around: State, tiles: Tiles) -> State:
    """Join the partial states of each head, and `around`."""
    heads, rows, head_dim = around.out.shape
    out, lse = torch.empty_like(around.out), torch.empty_like(around.lse)
    join_kernel[triton.cdiv(rows, tiles.join_rows), heads](
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
        ROWS=tiles.join_rows,
        PARTS=tiles.join_parts,
        TOKENS=tiles.tokens,
        HEADS=triton.next_power_of_2(heads),
        num_warps=max(1, min(4, tiles.join_rows * tiles.join_parts // 8)),
    )
    return State(out, lse)


def attend_tokens_triton(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    tokens: Tensor,
    counts: Tensor,
    around: State,
    *,
    scale: float,
    softcap: float | None,
    tiles: Tiles | None = None,
) -> State:
    """See `attend_tokens`."""
    tiles = tiles or fitting_tiles(query.shape[1])
    parts = attend_parts(
        query, keys, values, tokens, counts, scale=scale, softcap=softcap, tiles=tiles
    )
    return join_parts(parts, counts, around, tiles)


def fitting_tiles(rows: int) -> Tiles:
    """Tiles for a question of so many rows a head: about two programs for each of 132 units.

    Partial states of long questions weigh more than an even share of the work: few ranges then.
    """
    tile = min(128, max(16, triton.next_power_of_2(rows)))
    ranges = max(16, 264 // triton.cdiv(rows, tile))
    return Tiles(rows=tile, ranges=ranges, warps=4 if tile <= 64 else 8)
