"""`attend_near` in Triton: one launch, in which no program needs another's result."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.prefill.attend_near import NearKeys
from engine.kernels.shared.sizes import power_of_two
from engine.kernels.shared.state import State
from engine.kernels.shared.triton.tiles import absorb, capped, divided, log_mass

ROWS, MANY_ROWS, BLOCK = 32, 64, 64  # most rows of a tile; keys of 256 bytes of a tile
LONG = 1024  # rows from which on tiles fill a GPU however large they are


@triton.jit
def _document(
    q,
    keys,
    values,
    count,
    log_last,
    top,
    mass,
    total,
    scale,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
    SOFTCAP: tl.constexpr,
):
    """Fold in `count` keys of the document that every row sees; the last one weighs more."""
    cols = tl.arange(0, D)
    for first in range(0, count, BLOCK):
        at = first + tl.arange(0, BLOCK)
        there = at < count
        k = tl.load(keys + at[:, None] * D + cols[None, :], mask=there[:, None], other=0.0)
        v = tl.load(values + at[:, None] * D + cols[None, :], mask=there[:, None], other=0.0)
        scores = capped(tl.dot(q, tl.trans(k), input_precision="ieee") * scale, SOFTCAP)
        scores += tl.where(at == count - 1, log_last, 0.0)[None, :]
        scores = tl.where(there[None, :], scores, float("-inf"))
        top, mass, total = absorb(scores, v, top, mass, total)
    return top, mass, total


@triton.jit(do_not_specialize=["num_own", "tokens", "rows"])
def attend_near_kernel(
    query,
    own_keys,
    own_values,
    key_head,
    key_row,
    value_head,
    value_row,
    num_own,
    tokens,
    anchor_keys,
    anchor_values,
    anchor_stride,
    num_anchors,
    kept_keys,
    kept_values,
    kept_stride,
    num_kept,
    log_last,
    retrieval,
    out,
    lse,
    rows,
    scale,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    SOFTCAP: tl.constexpr,
):
    """A tile of rows of one KV head; row r is the question's token r % tokens.

    Strides are in elements, between heads (`key_head`, ...) and between tokens (`key_row`, ...).
    """
    begin, head = tl.program_id(0) * ROWS, tl.program_id(1).to(tl.int64)
    row, cols = begin + tl.arange(0, ROWS), tl.arange(0, D)
    real = row < rows
    at_rows = (head * rows + row)[:, None] * D + cols[None, :]
    q = tl.load(query + at_rows, mask=real[:, None], other=0.0)
    top = tl.full([ROWS], float("-inf"), tl.float32)
    mass, total = tl.zeros([ROWS], tl.float32), tl.zeros([ROWS, D], tl.float32)
    if head < retrieval:
        near = head * anchor_stride
        top, mass, total = _document(
            q, anchor_keys + near, anchor_values + near, num_anchors, 0.0,
            top, mass, total, scale, D, BLOCK, SOFTCAP,
        )  # fmt: skip
    else:
        near = (head - retrieval) * kept_stride
        top, mass, total = _document(
            q, kept_keys + near, kept_values + near, num_kept, log_last,
            top, mass, total, scale, D, BLOCK, SOFTCAP,
        )  # fmt: skip
    past = num_own - tokens
    end = tl.minimum(begin + ROWS, rows) - 1
    one_member = begin // tokens == end // tokens
    latest = past + tl.where(one_member, end % tokens, tokens - 1)
    for first in range(0, latest + 1, BLOCK):
        at = first + tl.arange(0, BLOCK)
        there = at <= latest
        k = tl.load(
            own_keys + head * key_head + at[:, None] * key_row + cols[None, :],
            mask=there[:, None],
            other=0.0,
        )
        v = tl.load(
            own_values + head * value_head + at[:, None] * value_row + cols[None, :],
            mask=there[:, None],
            other=0.0,
        )
        scores = capped(tl.dot(q, tl.trans(k), input_precision="ieee") * scale, SOFTCAP)
        seen = (at[None, :] <= (past + row % tokens)[:, None]) & there[None, :]
        scores = tl.where(seen, scores, float("-inf"))
        top, mass, total = absorb(scores, v, top, mass, total)
    tl.store(out + at_rows, divided(total, mass), mask=real[:, None])
    tl.store(lse + head * rows + row, log_mass(top, mass), mask=real)


def attend_near_triton(
    query: Tensor, near: NearKeys, *, tokens: int, scale: float, softcap: float | None
) -> State:
    """See `attend_near`."""
    heads, rows, head_dim = query.shape
    out = torch.empty(heads, rows, head_dim, dtype=query.dtype, device=query.device)
    lse = torch.empty(heads, rows, dtype=torch.float32, device=query.device)
    own_keys, own_values = near.own_keys, near.own_values
    kept_keys = near.anchor_keys if near.kept_keys is None else near.kept_keys  # then none reads it
    kept_values = near.anchor_values if near.kept_values is None else near.kept_values
    tile = MANY_ROWS if rows > LONG else min(ROWS, max(16, power_of_two(rows)))
    by = max(1, head_dim * query.element_size() // 256)
    attend_near_kernel[(-(-rows // tile), heads)](
        query,
        own_keys,
        own_values,
        own_keys.stride(0),
        own_keys.stride(1),
        own_values.stride(0),
        own_values.stride(1),
        own_keys.shape[1],
        tokens,
        near.anchor_keys,
        near.anchor_values,
        near.anchor_keys.stride(0),
        near.anchor_keys.shape[1],
        kept_keys,
        kept_values,
        kept_keys.stride(0),
        kept_keys.shape[1],
        near.log_last,
        len(near.anchor_keys),
        out,
        lse,
        rows,
        scale,
        D=head_dim,
        ROWS=tile,
        BLOCK=max(16, BLOCK // by),
        SOFTCAP=softcap,
        num_warps=4,
        num_stages=2,
    )
    return State(out, lse)
