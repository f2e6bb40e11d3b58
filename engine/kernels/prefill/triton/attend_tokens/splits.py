"""Partial attention over one split of the listed tokens."""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from engine.kernels.prefill.attend_tokens import AttendTokensInputs
from engine.kernels.prefill.triton.attend_tokens.gather import gather_tokens
from engine.kernels.prefill.triton.attend_tokens.online_softmax import (
    load_tile,
    tile_scores,
    update_fixed_softmax,
    update_softmax,
)
from engine.kernels.prefill.triton.attend_tokens.tiles import AttendTiles
from engine.kernels.shared.overlap import can_overlap, launch_options
from engine.kernels.shared.sizes import power_of_two
from engine.kernels.shared.state import State
from engine.kernels.shared.triton.columns import mask_columns, tile_columns
from engine.kernels.shared.triton.overlap import release_next_launch, wait_for_previous_launch

FITS = tl.constexpr(1e30)  # sums of weights below it are far from the end of fp32, outputs as well


@triton.jit
def attend_tokens_splits_kernel(
    query,
    keys,
    values,
    tokens,
    counts,
    out,
    lse,
    rows,
    heads,
    splits,
    capacity,
    head_stride,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    TOKENS: tl.constexpr,
    HEADS: tl.constexpr,
    STAGES: tl.constexpr,
    FIXED_MAXIMUM: tl.constexpr,
    GATHERED: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Attend with a tile of rows to what one split has of one head: the state of one slot.

    out: (slots, rows, D) fp32; lse: (slots, rows) to base 2. head_stride: elements between heads of
    keys. With GATHERED `keys` and `values` are descriptors of what `attend_tokens_gather_kernel`
    writes, and the list is not read.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)  # [ROWS]
    slot = tl.program_id(1)
    dims, lane = tile_columns(D), tl.arange(0, TOKENS)
    WIDTH: tl.constexpr = dims.shape[0]
    every_head = tl.arange(0, HEADS)
    wait_for_previous_launch(OVERLAP)
    release_next_launch(OVERLAP)
    # In tiles, for every head [HEADS]: all of the head, all before it, and the split of this slot.
    listed = tl.load(counts + every_head, mask=every_head < heads, other=0)  # tokens
    tiles = tl.cdiv(listed, TOKENS)
    share = tl.cdiv(tl.sum(tiles, 0), splits)
    past = tl.cumsum(tiles, 0) - tiles
    begin = (slot - every_head) * share - past
    first, last = tl.maximum(begin, 0), tl.minimum(begin + share, tiles)
    owned = first < last  # by this slot: one head, or none
    head = tl.sum(tl.where(owned, every_head, 0), 0)
    tiles_before = tl.sum(tl.where(owned, past, 0), 0)
    count = tl.sum(tl.where(owned, listed, 0), 0)
    first, last = tl.sum(tl.where(owned, first, 0), 0), tl.sum(tl.where(owned, last, 0), 0)
    if first < last:
        base = tl.cast(head, tl.int64)
        inside = mask_columns(row[:, None] < rows, D)  # [ROWS, WIDTH]
        q = tl.load(query + (base * rows + row[:, None]) * D + dims, mask=inside, other=0.0)
        acc = tl.zeros([ROWS, WIDTH], tl.float32)
        top = tl.full([ROWS], -1e30, tl.float32)
        total = tl.zeros([ROWS], tl.float32)
        if not GATHERED:
            keys += base * head_stride
            values += base * head_stride
        list_lane = tokens + base * capacity + lane  # [TOKENS], pointers into the head's list
        if FIXED_MAXIMUM:  # the last tile, which may not be full, comes first and gives the maximum
            end = last - 1
            exists = end * TOKENS + lane < count
            if GATHERED:
                at = (tiles_before + end) * TOKENS
            else:
                at = tl.load(list_lane + end * TOKENS, mask=exists, other=0)
            scores = tile_scores(q, load_tile(keys, at, D, GATHERED), SCALE, SOFTCAP)
            scores = tl.where(exists[None, :], scores, -float("inf"))
            v = load_tile(values, at, D, GATHERED)
            acc, top, total = update_softmax(scores, v, acc, top, total, SCALE, SOFTCAP)
            partial = tl.zeros([ROWS, 8], tl.float32)
            # Two tiles a step: products of one run while the weights of the other are computed.
            if GATHERED:
                start = first
                if (end - first) % 2 == 1:
                    at = (tiles_before + first) * TOKENS
                    scores = tile_scores(q, keys.load([at, 0]), SCALE, SOFTCAP)
                    v = values.load([at, 0])
                    acc, top, total = update_softmax(scores, v, acc, top, total, SCALE, SOFTCAP)
                    start += 1
                early = tl.full([ROWS, TOKENS], -float("inf"), tl.float32)
                for tile in tl.range(start, end, 2, num_stages=STAGES):
                    at = (tiles_before + tile) * TOKENS
                    scores = tile_scores(q, keys.load([at, 0]), SCALE, SOFTCAP)
                    later = tile_scores(q, keys.load([at + TOKENS, 0]), SCALE, SOFTCAP)
                    v = values.load([tl.maximum(at - TOKENS, 0), 0])
                    acc, partial = update_fixed_softmax(early, v, acc, top, partial, SCALE, SOFTCAP)
                    v = values.load([at, 0])
                    acc, partial = update_fixed_softmax(
                        scores, v, acc, top, partial, SCALE, SOFTCAP
                    )
                    early = later
                if start < end:
                    v = values.load([(tiles_before + end - 1) * TOKENS, 0])
                    acc, partial = update_fixed_softmax(early, v, acc, top, partial, SCALE, SOFTCAP)
            else:
                exists = first * TOKENS + lane < count
                token = tl.load(list_lane + first * TOKENS, mask=exists, other=0)
                for tile in tl.range(first, end, num_stages=STAGES):
                    k = load_tile(keys, token, D, GATHERED)
                    scores = tile_scores(q, k, SCALE, SOFTCAP)
                    v = load_tile(values, token, D, GATHERED)
                    acc, partial = update_fixed_softmax(
                        scores, v, acc, top, partial, SCALE, SOFTCAP
                    )
                    # One tile ahead, so that loads of keys never wait for their addresses.
                    exists = (tile + 1) * TOKENS + lane < count
                    token = tl.load(list_lane + (tile + 1) * TOKENS, mask=exists, other=0)
            total += tl.sum(partial, 1)
            if tl.max(tl.where(total < FITS, 0, 1), 0) > 0:  # then all tiles are done again below
                acc = tl.zeros([ROWS, WIDTH], tl.float32)
                top = tl.full([ROWS], -1e30, tl.float32)
                total = tl.zeros([ROWS], tl.float32)
            else:
                first = last
        full = tl.minimum(last, count // TOKENS)  # only a head's last tile is not full
        if not GATHERED:
            exists = first * TOKENS + lane < count
            token = tl.load(list_lane + first * TOKENS, mask=exists, other=0)
        for tile in tl.range(first, full, num_stages=STAGES):
            at = (tiles_before + tile) * TOKENS if GATHERED else token
            scores = tile_scores(q, load_tile(keys, at, D, GATHERED), SCALE, SOFTCAP)
            v = load_tile(values, at, D, GATHERED)
            acc, top, total = update_softmax(scores, v, acc, top, total, SCALE, SOFTCAP)
            if not GATHERED:
                exists = (tile + 1) * TOKENS + lane < count
                token = tl.load(list_lane + (tile + 1) * TOKENS, mask=exists, other=0)
        if (full < last) & (first < last):
            at = (tiles_before + full) * TOKENS if GATHERED else token
            exists = full * TOKENS + lane < count
            scores = tile_scores(q, load_tile(keys, at, D, GATHERED), SCALE, SOFTCAP)
            scores = tl.where(exists[None, :], scores, -float("inf"))
            v = load_tile(values, at, D, GATHERED)
            acc, top, total = update_softmax(scores, v, acc, top, total, SCALE, SOFTCAP)
        target = tl.cast(slot, tl.int64) * rows + row
        tl.store(lse + target, top + tl.log2(total), mask=row < rows)
        tl.store(out + target[:, None] * D + dims, acc / total[:, None], mask=inside)


def attend_splits(inputs: AttendTokensInputs, tiles: AttendTiles) -> State:
    """Compute the partial state of every slot; gathers keys and values first if the tiles say so.

    Args:
        inputs: as of `attend_tokens`.
        tiles: the division of the work.
    Returns: out (slots, rows, head_dim) and lse (slots, rows) to base 2, both fp32; slots that own
        no tokens are not written.
    Raises: torch.OutOfMemoryError if there is no memory to gather keys.
    """
    heads, rows, head_dim = inputs.query.shape
    slots = tiles.splits + heads - 1
    device = inputs.query.device
    out = torch.empty(slots, rows, head_dim, dtype=torch.float32, device=device)
    lse = torch.empty(slots, rows, dtype=torch.float32, device=device)
    sources: tuple[Tensor | TensorDescriptor, ...] = (inputs.keys, inputs.values)
    if tiles.gathered:
        sources = tuple(
            TensorDescriptor.from_tensor(part, [tiles.tokens, power_of_two(head_dim)])
            for part in gather_tokens(
                inputs.keys, inputs.values, inputs.tokens, inputs.counts, tiles.tokens
            )
        )
    attend_tokens_splits_kernel[triton.cdiv(rows, tiles.rows), slots](
        inputs.query,
        *sources,
        inputs.tokens,
        inputs.counts,
        out,
        lse,
        rows,
        heads,
        tiles.splits,
        inputs.tokens.shape[1],
        inputs.keys.stride(0),
        SCALE=inputs.scale,
        SOFTCAP=inputs.softcap or 0.0,
        D=head_dim,
        ROWS=tiles.rows,
        TOKENS=tiles.tokens,
        HEADS=triton.next_power_of_2(heads),
        STAGES=tiles.stages,
        FIXED_MAXIMUM=tiles.fixed_maximum and inputs.query.dtype != torch.float16,
        GATHERED=tiles.gathered,
        num_warps=tiles.warps,
        **launch_options(tiles.overlap and can_overlap(device)),
    )
    return State(out, lse)
