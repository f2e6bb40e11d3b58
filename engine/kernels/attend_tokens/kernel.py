"""`attend_tokens` in Triton: work cut evenly over heads of very different sizes, then merged.

The tiles of listed tokens of all heads are laid end to end and cut into equal ranges, whose ends
the device reads from the counts: the host never waits. A range that spans heads leaves a partial
state in each; range p and head h own slot p + h, as along the ranges one of the two always grows.
Logarithms are to base 2.
"""

from dataclasses import dataclass, replace

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from engine.kernels.state import State

PACKERS = 1056  # programs that copy: as many as an H200 holds at a time
PACKED_ROWS = 2048  # of a question, a head: longer ones win more by packing than it costs
PACKED_SHARE = 32  # one in so many bytes of the device's memory may be packed keys and values


@dataclass(frozen=True)
class Tiles:
    """How the work is cut.

    Attributes:
        rows, tokens: of a tile.
        ranges: equal shares of the listed tokens.
        max_registers: a thread; None leaves it to the compiler.
        join_rows: rows that a program joins.
        join_parts: states of each that it loads at once.
        packed: whether listed keys and values are copied together first
            (docs/decisions/0010-attention-reads-through-the-list.md).
    """

    rows: int = 128
    tokens: int = 64
    ranges: int = 132
    warps: int = 8
    stages: int = 3
    max_registers: int | None = None
    join_rows: int = 1
    join_parts: int = 32
    packed: bool = False


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
def pack_kernel(
    keys,
    values,
    tokens,
    counts,
    packed_keys,
    packed_values,
    heads,
    capacity,
    head_stride,
    D: tl.constexpr,
    TOKENS: tl.constexpr,
):
    """Copy the listed keys and values of all heads end to end; each begins a tile of its own."""
    dims, lane = tl.arange(0, D), tl.arange(0, TOKENS)
    program = tl.program_id(0)
    before = tl.zeros([], tl.int64)
    for head in range(0, heads):
        count = tl.load(counts + head)
        base = tl.cast(head, tl.int64)
        for tile in range(program, tl.cdiv(count, TOKENS), tl.num_programs(0)):
            place = tile * TOKENS + lane
            there = place < count
            token = tl.load(tokens + base * capacity + place, mask=there, other=0)
            source = base * head_stride + token[:, None] * D + dims
            k = tl.load(keys + source, mask=there[:, None], other=0.0)
            v = tl.load(values + source, mask=there[:, None], other=0.0)
            target = ((before + tile) * TOKENS + lane)[:, None] * D + dims
            tl.store(packed_keys + target, k)
            tl.store(packed_values + target, v)
        before += tl.cdiv(count, TOKENS)


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
    PACKED: tl.constexpr,
):
    """Partial attention of a tile of rows over one range of listed tokens.

    out: (slots, rows, D) fp32; lse: (slots, rows). head_stride: elements between heads of keys.
    With PACKED keys and values are descriptors of what `pack_kernel` leaves, and no list is read.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    part = tl.program_id(1)
    dims, lane = tl.arange(0, D), tl.arange(0, TOKENS)
    every = tl.arange(0, HEADS)
    tiles = tl.cdiv(tl.load(counts + every, mask=every < heads, other=0), TOKENS)
    share = tl.cdiv(tl.sum(tiles, 0), tl.num_programs(1))
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
            acc = tl.zeros([ROWS, D], tl.float32)
            top = tl.full([ROWS], -1e30, tl.float32)
            total = tl.zeros([ROWS], tl.float32)
            whole = tl.minimum(last, count // TOKENS)  # only a head's last tile is not full
            there = whole * TOKENS + lane < count
            if PACKED:
                before = part * share - begin  # tiles of the heads before this one
                for tile in tl.range(first, whole, num_stages=STAGES):
                    k = keys.load([(before + tile) * TOKENS, 0])
                    scores = scores_of(q, k, SCALE, SOFTCAP)
                    v = values.load([(before + tile) * TOKENS, 0])
                    acc, top, total = fold(scores, v, acc, top, total, SCALE, SOFTCAP)
                if whole < last:
                    k = keys.load([(before + whole) * TOKENS, 0])
                    scores = scores_of(q, k, SCALE, SOFTCAP)
                    scores = tl.where(there[None, :], scores, -float("inf"))
                    v = values.load([(before + whole) * TOKENS, 0])
                    acc, top, total = fold(scores, v, acc, top, total, SCALE, SOFTCAP)
            else:
                k_base, v_base = keys + base * head_stride, values + base * head_stride
                list_at = tokens + base * capacity + lane
                listed = first * TOKENS + lane < count
                token = tl.load(list_at + first * TOKENS, mask=listed, other=0)
                for tile in tl.range(first, whole, num_stages=STAGES):
                    at = token[:, None] * D + dims
                    scores = scores_of(q, tl.load(k_base + at), SCALE, SOFTCAP)
                    v = tl.load(v_base + at)
                    acc, top, total = fold(scores, v, acc, top, total, SCALE, SOFTCAP)
                    # A tile ahead, so that keys never wait for their addresses.
                    listed = (tile + 1) * TOKENS + lane < count
                    token = tl.load(list_at + (tile + 1) * TOKENS, mask=listed, other=0)
                if whole < last:
                    at = token[:, None] * D + dims
                    scores = scores_of(q, tl.load(k_base + at), SCALE, SOFTCAP)
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


def pack(
    keys: Tensor, values: Tensor, tokens: Tensor, counts: Tensor, tiles: Tiles
) -> tuple[Tensor, Tensor]:
    """The listed keys and values (tokens of all heads, head_dim), each head from a tile's edge."""
    heads, capacity = tokens.shape
    size = (heads * triton.cdiv(capacity, tiles.tokens) * tiles.tokens, keys.shape[2])
    packed = torch.empty(2, *size, dtype=keys.dtype, device=keys.device)
    pack_kernel[(PACKERS,)](
        keys,
        values,
        tokens,
        counts,
        packed[0],
        packed[1],
        heads,
        capacity,
        keys.stride(0),
        D=keys.shape[2],
        TOKENS=tiles.tokens,
        num_warps=4,
    )
    return packed[0], packed[1]


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
            for one in pack(keys, values, tokens, counts, tiles)
        )
    attend_kernel[triton.cdiv(rows, tiles.rows), tiles.ranges](
        query,
        *read,
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
        PACKED=tiles.packed,
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
    read = (query, keys, values, tokens, counts)
    vector_bytes = keys.shape[2] * keys.element_size()
    if tiles is None:
        packed = may_pack(2 * tokens.numel() * vector_bytes, keys.device)
        tiles = fitting_tiles(query.shape[1], vector_bytes, packed=packed)
    try:
        parts = attend_parts(*read, scale=scale, softcap=softcap, tiles=tiles)
    except torch.OutOfMemoryError:
        if not tiles.packed:
            raise
        tiles = fitting_tiles(query.shape[1], vector_bytes)
        parts = attend_parts(*read, scale=scale, softcap=softcap, tiles=tiles)
    return join_parts(parts, counts, around, tiles)


def fitting_tiles(rows: int, vector_bytes: int = 256, *, packed: bool = False) -> Tiles:
    """Tiles for a question of so many rows a head: measured on one H200, 132 units.

    Partial states of long questions weigh more than an even share of the work: few ranges then.

    Args:
        vector_bytes: of a key; tiles of wider ones have fewer tokens, as an SM holds no more.
        packed: whether there is memory to pack the keys of a long question.
    """
    tile = min(128, max(16, triton.next_power_of_2(rows)))
    row_tiles = triton.cdiv(rows, tile)
    if tile <= 64:
        chosen = Tiles(rows=tile, ranges=264, warps=4, stages=2, join_rows=2, join_parts=16)
    elif packed and rows >= PACKED_ROWS:
        chosen = Tiles(ranges=33, stages=3, join_rows=8, join_parts=2, packed=True)
    else:
        join_rows, join_parts = (2, 8) if rows <= 512 else (8, 2)
        chosen = Tiles(
            tokens=128,
            ranges=max(33, 132 // row_tiles),
            stages=2,
            join_rows=join_rows,
            join_parts=join_parts,
        )
    return replace(chosen, tokens=max(16, chosen.tokens * 256 // max(256, vector_bytes)))


def may_pack(num_bytes: int, device: torch.device) -> bool:
    """Whether buffers for all that a list can hold are a small part of the device's memory."""
    if device.type != "cuda":
        return False
    return num_bytes * PACKED_SHARE <= int(torch.cuda.get_device_properties(device).total_memory)
