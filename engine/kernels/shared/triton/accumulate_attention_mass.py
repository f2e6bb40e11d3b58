"""`accumulate_attention_mass` in Triton: one launch over anchors and listed tokens."""

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.shared.accumulate_attention_mass import AttentionMassInputs
from engine.kernels.shared.sizes import power_of_two
from engine.kernels.shared.triton.columns import mask_columns, tile_columns
from engine.kernels.shared.triton.online_softmax import apply_softcap

BLOCK = 64  # tokens of a tile
PROGRAMS = 1056  # over all heads: as many as an H200 holds at a time


@triton.jit
def _score_keys(q, keys, token, seen, scale, D: tl.constexpr, SOFTCAP: tl.constexpr):
    """Score the keys of the tokens [BLOCK] that are `seen`; returns [ROWS, BLOCK]."""
    offsets = token.to(tl.int64)[:, None] * D + tile_columns(D)[None, :]  # [BLOCK, WIDTH]
    k = tl.load(keys + offsets, mask=mask_columns(seen[:, None], D), other=0.0)
    return apply_softcap(tl.dot(q, tl.trans(k), input_precision="ieee") * scale, SOFTCAP)


@triton.jit
def add_head(
    mass,
    q,
    row_lse,
    keys,
    positions,
    num_keys,
    entries,
    count,
    token_scores,
    num_anchors,
    scale,
    GROUP: tl.constexpr,
    ROWS: tl.constexpr,
    D: tl.constexpr,
    SEGMENT: tl.constexpr,
    BLOCK: tl.constexpr,
    SOFTCAP: tl.constexpr,
    HAS_SCORES: tl.constexpr,
):
    """Add the squared weights of one head's anchors and listed tokens to the mass.

    q: the token's queries [ROWS, WIDTH], zeros behind the group's. row_lse: [ROWS], +inf there.
    keys, positions, entries, token_scores: the head's own, of `count` entries.

    A head's tiles are those of its anchors, then those of its entries, of which a tile has
    BLOCK // SEGMENT. Program p of a head takes the tiles p, p + programs, p + 2 programs, ...
    """
    row, lane = tl.arange(0, ROWS), tl.arange(0, BLOCK)
    is_row = row < GROUP  # [ROWS]
    anchor_tiles = tl.cdiv(num_anchors, BLOCK)
    STEP: tl.constexpr = BLOCK // SEGMENT  # entries of a tile
    num_tiles = anchor_tiles + tl.cdiv(count, STEP)
    for tile in range(tl.program_id(0), num_tiles, tl.num_programs(0)):
        anchor = tile * BLOCK + lane  # [BLOCK]
        slot = (tile - anchor_tiles) * STEP + lane // SEGMENT  # [BLOCK]
        is_listed = (tile >= anchor_tiles) & (slot < count)
        listed = tl.load(entries + slot, mask=is_listed, other=0)
        if SEGMENT > 1:
            is_listed = is_listed & (lane % SEGMENT < (listed & 31))
            listed = (listed >> 5) + lane % SEGMENT
        is_anchor = (tile < anchor_tiles) & (anchor < num_anchors)
        seen = is_listed | is_anchor
        token = tl.where(is_anchor, anchor, num_anchors + listed)  # [BLOCK]
        if HAS_SCORES:
            scores = tl.load(
                token_scores + row[:, None] * (num_keys - num_anchors) + listed[None, :],
                mask=is_row[:, None] & is_listed[None, :],
                other=0.0,
            )  # [ROWS, BLOCK]
            if tile < anchor_tiles:
                scores = _score_keys(q, keys, token, is_anchor, scale, D, SOFTCAP)
        else:
            scores = _score_keys(q, keys, token, seen, scale, D, SOFTCAP)
        weights = tl.exp(scores - row_lse[:, None])  # rows beyond the group: exp(-inf)
        squares = tl.sum(weights * weights, 0)  # [BLOCK]
        position = tl.load(positions + token, mask=seen, other=0)
        tl.atomic_add(mass + position, squares, mask=seen, sem="relaxed")


@triton.jit
def accumulate_attention_mass_kernel(
    mass,
    query,
    lse,
    keys,
    key_stride,
    positions,
    num_keys,
    entries,
    capacity,
    counts,
    token_scores,
    num_anchors,
    scale,
    GROUP: tl.constexpr,
    ROWS: tl.constexpr,
    D: tl.constexpr,
    SEGMENT: tl.constexpr,
    BLOCK: tl.constexpr,
    SOFTCAP: tl.constexpr,
    HAS_SCORES: tl.constexpr,
):
    """As `add_head`, for the head of this program."""
    head = tl.program_id(1)
    row, cols = tl.arange(0, ROWS), tile_columns(D)
    is_row = row < GROUP  # [ROWS]
    row_offsets = (head * GROUP + row)[:, None] * D + cols[None, :]  # [ROWS, WIDTH]
    q = tl.load(query + row_offsets, mask=mask_columns(is_row[:, None], D), other=0.0)
    row_lse = tl.load(lse + head * GROUP + row, mask=is_row, other=float("inf"))  # [ROWS]
    keys += head.to(tl.int64) * key_stride
    positions += head.to(tl.int64) * num_keys
    entries += head.to(tl.int64) * capacity
    token_scores += head.to(tl.int64) * GROUP * (num_keys - num_anchors)
    add_head(
        mass, q, row_lse, keys, positions, num_keys, entries, tl.load(counts + head), token_scores,
        num_anchors, scale, GROUP, ROWS, D, SEGMENT, BLOCK, SOFTCAP, HAS_SCORES,
    )  # fmt: skip


def accumulate_attention_mass_triton(mass: Tensor, inputs: AttentionMassInputs) -> None:
    """Launch `accumulate_attention_mass` in Triton.

    Args: as `accumulate_attention_mass`; nothing is checked.
    """
    i, attended = inputs, inputs.attended
    heads, group, head_dim = i.query.shape
    accumulate_attention_mass_kernel[(max(1, PROGRAMS // heads), heads)](
        mass,
        i.query,
        i.lse,
        i.keys,
        i.keys.stride(0),
        i.positions,
        i.positions.shape[1],
        attended.entries,
        attended.entries.shape[1],
        attended.counts,
        i.lse if attended.scores is None else attended.scores,
        i.num_anchors,
        i.scale,
        GROUP=group,
        ROWS=max(16, power_of_two(group)),
        D=head_dim,
        SEGMENT=attended.segment_size,
        BLOCK=BLOCK,
        SOFTCAP=i.softcap,
        HAS_SCORES=attended.scores is not None,
        num_warps=4,
    )
