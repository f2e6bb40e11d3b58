"""`attend_tokens` in Triton: work cut evenly over heads of very different sizes, then merged.

The tiles of listed tokens of all heads are laid end to end and cut into equal ranges, whose ends
the device reads from the counts: the host never waits. A range that spans heads leaves a partial
state in each; range p and head h own slot p + h, as along the ranges one of the two always grows,
and each slot is a program. Logarithms are to base 2.
"""

from dataclasses import dataclass, replace

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from engine.kernels.state import State

UNITS = 132  # of an H200: one program of a long question runs on each at a time
PACKERS = 1056  # programs that copy: as many as an H200 holds at a time
PACKED_ROWS = 2048  # of a question, a head: longer ones win more by packing than it costs
PACKED_SHARE = 32  # one in so many bytes of the device's memory may be packed keys and values
FITS = tl.constexpr(1e30)  # sums of weights below it are far from the end of fp32, outputs as well


@dataclass(frozen=True)
class Tiles:
    """How the work is cut.

    Attributes:
        rows, tokens: of a tile.
        ranges: equal shares of the listed tokens.
        join_rows: rows that a program joins.
        join_parts: states of each that it loads at once.
        join_columns: of a row.
        steady: whether weights are relative to the highest score of one tile, not to the highest
            so far: nothing is rescaled, and where the weights do not fit, which is rare, the slot
            is done again. Not in fp16, whose weights end at 65504.
        packed: whether listed keys and values are copied together first
            (docs/decisions/0010-attention-reads-through-the-list.md).
    """

    rows: int = 128
    tokens: int = 64
    ranges: int = 16
    warps: int = 8
    stages: int = 3
    join_rows: int = 8
    join_parts: int = 2
    join_columns: int = 128
    steady: bool = False
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
def fold_steadily(scores, v, acc, top, parts, SCALE: tl.constexpr, SOFTCAP: tl.constexpr):
    """One more tile of `scores_of` and of values, relative to `top`, which stays as it is.

    parts: sums of weights [rows, lanes], which are columns that one thread holds, not yet added up.
    """
    factor: tl.constexpr = 1.0 if SOFTCAP > 0 else SCALE * 1.4426950408889634
    weights = tl.exp2(scores * factor - top[:, None])
    ROWS: tl.constexpr = scores.shape[0]
    LANES: tl.constexpr = parts.shape[1]
    parts += tl.sum(tl.reshape(weights, (ROWS, scores.shape[1] // LANES, LANES)), 1)
    acc = tl.dot(weights.to(v.dtype), v, acc, input_precision="ieee")
    return acc, parts


@triton.jit
def rows_at(held, at, D: tl.constexpr, PACKED: tl.constexpr):
    """Keys or values: those from row `at` of what is packed, or those of the tokens `at`."""
    if PACKED:
        return held.load([at, 0])
    else:
        return tl.load(held + at[:, None] * D + tl.arange(0, D))


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
):
    """Partial attention of a tile of rows over what one range lists of one head: a slot.

    out: (slots, rows, D) fp32; lse: (slots, rows). head_stride: elements between heads of keys.
    With PACKED keys and values are descriptors of what `pack_kernel` leaves, and no list is read.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    slot = tl.program_id(1)
    dims, lane = tl.arange(0, D), tl.arange(0, TOKENS)
    every = tl.arange(0, HEADS)
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
        )  # [rows, parts, columns]
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
    )
    return State(out, lse)


def join_parts(parts: State, counts: Tensor, around: State, tiles: Tiles) -> State:
    """Join the partial states of each head, and `around`."""
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
    Those of short ones, with a slot more for each head but one, are on an H200 at a time.

    Args:
        vector_bytes: of a key; tiles of wider ones have fewer tokens, and are not steady, as an SM
            holds no more.
        packed: whether there is memory to pack the keys of a long question.
    """
    tile = min(128, max(16, triton.next_power_of_2(rows)))
    row_tiles = triton.cdiv(rows, tile)
    if tile <= 64:
        chosen = Tiles(
            rows=tile, ranges=256, warps=4, stages=2, join_rows=2, join_parts=32, join_columns=32
        )
    elif packed and rows >= PACKED_ROWS:
        chosen = Tiles(ranges=full_turns(row_tiles), steady=True, packed=True)
    else:
        few = rows <= 512
        chosen = Tiles(
            tokens=128,
            ranges=max(26, UNITS // row_tiles - 8),
            stages=2,
            steady=True,
            join_rows=2 if few else 8,
            join_parts=8 if few else 2,
        )
    tokens = max(16, chosen.tokens * 256 // max(256, vector_bytes))
    return replace(chosen, tokens=tokens, steady=chosen.steady and vector_bytes <= 256)


def full_turns(row_tiles: int) -> int:
    """Ranges, 16 to 24, with which programs of so many tiles of rows fill their last turn best."""
    return min(range(16, 25), key=lambda ranges: triton.cdiv(row_tiles * ranges, UNITS) / ranges)


def may_pack(num_bytes: int, device: torch.device) -> bool:
    """Whether buffers for all that a list can hold are a small part of the device's memory."""
    if device.type != "cuda":
        return False
    return num_bytes * PACKED_SHARE <= int(torch.cuda.get_device_properties(device).total_memory)
