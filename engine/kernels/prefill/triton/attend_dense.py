"""`attend_dense` in Triton: one launch, in which no program needs another's result."""

import torch
import triton
import triton.language as tl

from engine.kernels.prefill.attend_dense import AttendDenseInputs
from engine.kernels.shared.sizes import ceil_div, power_of_two, tile_bytes
from engine.kernels.shared.state import State
from engine.kernels.shared.triton.columns import mask_columns, tile_columns
from engine.kernels.shared.triton.online_softmax import (
    apply_softcap,
    softmax_lse,
    softmax_output,
    update_softmax,
)

ROWS, LONG_ROWS = 32, 64  # rows of a tile at most, of short and of long questions
LONG = 1024  # rows from which on there are enough tiles to fill a GPU, however large they are
BLOCK = 64  # keys of 256 bytes of a tile


@triton.jit
def _attend_document(
    q,
    keys,
    values,
    begin,
    count,
    position,
    log_last_weight,
    top,
    mass,
    total,
    scale,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
    SOFTCAP: tl.constexpr,
    WINDOW: tl.constexpr,
):
    """Add the document's keys `begin` to `count` to the online softmax of q [ROWS, WIDTH].

    position: [ROWS], where the rows' tokens stand behind the first key; without a window they see
    all keys. The last key's score is raised by log_last_weight.
    """
    cols = tile_columns(D)
    for first in range(begin, count, BLOCK):
        key = first + tl.arange(0, BLOCK)  # [BLOCK]
        exists = key < count
        inside = mask_columns(exists[:, None], D)  # [BLOCK, WIDTH]
        k = tl.load(keys + key[:, None] * D + cols[None, :], mask=inside, other=0.0)
        v = tl.load(values + key[:, None] * D + cols[None, :], mask=inside, other=0.0)
        products = tl.dot(q, tl.trans(k), input_precision="ieee")  # [ROWS, BLOCK]
        scores = apply_softcap(products * scale, SOFTCAP)
        scores += tl.where(key == count - 1, log_last_weight, 0.0)[None, :]
        seen = exists[None, :]
        if WINDOW is not None:
            seen = seen & (position[:, None] - key[None, :] < WINDOW)
        scores = tl.where(seen, scores, float("-inf"))
        top, mass, total = update_softmax(scores, v, top, mass, total)
    return top, mass, total


@triton.jit
def _earliest_key(begin, past, tokens, rows, ROWS: tl.constexpr, WINDOW: tl.constexpr):
    """Return the first key of the question that a tile's window shows; negative in the document.

    begin: the tile's first row. past: tokens of the question before the query's.
    """
    end = tl.minimum(begin + ROWS, rows) - 1
    is_one_member = begin // tokens == end // tokens  # all rows are of one head of the group
    return past + tl.where(is_one_member, begin % tokens, 0) - WINDOW + 1


@triton.jit
def _take_in_sinks(
    sink_logits, head, row, is_row, tokens, rows, top, mass, total, SINKS: tl.constexpr
):
    """Add the sink logits of the rows' query heads, which have no value, to the online softmax."""
    if SINKS:
        group = rows // tokens
        sink = tl.load(sink_logits + head * group + row // tokens, mask=is_row, other=float("-inf"))
        sink = sink.to(tl.float32)
        new_top = tl.maximum(top, sink)
        finite_top = tl.where(new_top == float("-inf"), 0.0, new_top)
        rescale = tl.exp(top - finite_top)
        mass = mass * rescale + tl.exp(sink - finite_top)
        total = total * rescale[:, None]
        top = new_top
    return top, mass, total


@triton.jit(do_not_specialize=["num_own", "tokens", "rows"])
def attend_dense_kernel(
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
    streaming_keys,
    streaming_values,
    streaming_stride,
    num_streaming,
    log_last_weight,
    retrieval,
    out,
    lse,
    rows,
    scale,
    sink_logits,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    SOFTCAP: tl.constexpr,
    WINDOW: tl.constexpr,
    SINKS: tl.constexpr,
):
    """Attend with a tile of rows of one KV head; row r is the question's token r % tokens.

    Strides are in elements, between heads (`key_head`, ...) and between tokens (`key_row`, ...).
    With a window, keys that no row of the tile sees are not read. sink_logits: (heads,), of the
    query heads; read with SINKS alone.
    """
    begin, head = tl.program_id(0) * ROWS, tl.program_id(1).to(tl.int64)
    row, cols = begin + tl.arange(0, ROWS), tile_columns(D)
    is_row = row < rows
    row_offsets = (head * rows + row)[:, None] * D + cols[None, :]  # [ROWS, WIDTH]
    q = tl.load(query + row_offsets, mask=mask_columns(is_row[:, None], D), other=0.0)
    top = tl.full([ROWS], float("-inf"), tl.float32)
    mass, total = tl.zeros([ROWS], tl.float32), tl.zeros([ROWS, cols.shape[0]], tl.float32)
    earliest, anchor, position = 0, 0, row  # without a window every row sees from the first key on
    if WINDOW is not None:
        earliest = _earliest_key(begin, num_own - tokens, tokens, rows, ROWS, WINDOW)
        anchor = tl.maximum(earliest + num_anchors, 0)  # the anchors lie before the question
        earliest = tl.maximum(earliest, 0)
        position = num_own - tokens + row % tokens  # [ROWS]
    if head < retrieval:
        base = head * anchor_stride
        top, mass, total = _attend_document(
            q, anchor_keys + base, anchor_values + base, anchor, num_anchors,
            num_anchors + position, 0.0, top, mass, total, scale, D, BLOCK, SOFTCAP, WINDOW,
        )  # fmt: skip
    else:
        base = (head - retrieval) * streaming_stride
        top, mass, total = _attend_document(
            q, streaming_keys + base, streaming_values + base, 0, num_streaming, position,
            log_last_weight, top, mass, total, scale, D, BLOCK, SOFTCAP, None,
        )  # fmt: skip
    past = num_own - tokens
    end = tl.minimum(begin + ROWS, rows) - 1
    is_one_member = begin // tokens == end // tokens  # all rows are of one head of the group
    latest = past + tl.where(is_one_member, end % tokens, tokens - 1)  # key that some row sees
    for first in range(earliest, latest + 1, BLOCK):
        key = first + tl.arange(0, BLOCK)  # [BLOCK]
        exists = key <= latest
        inside = mask_columns(exists[:, None], D)  # [BLOCK, WIDTH]
        k = tl.load(
            own_keys + head * key_head + key[:, None] * key_row + cols[None, :],
            mask=inside,
            other=0.0,
        )
        v = tl.load(
            own_values + head * value_head + key[:, None] * value_row + cols[None, :],
            mask=inside,
            other=0.0,
        )
        products = tl.dot(q, tl.trans(k), input_precision="ieee")  # [ROWS, BLOCK]
        scores = apply_softcap(products * scale, SOFTCAP)
        seen = (key[None, :] <= (past + row % tokens)[:, None]) & exists[None, :]
        if WINDOW is not None:
            seen = seen & (position[:, None] - key[None, :] < WINDOW)
        scores = tl.where(seen, scores, float("-inf"))
        top, mass, total = update_softmax(scores, v, top, mass, total)
    top, mass, total = _take_in_sinks(
        sink_logits, head, row, is_row, tokens, rows, top, mass, total, SINKS
    )
    inside = mask_columns(is_row[:, None], D)
    tl.store(out + row_offsets, softmax_output(total, mass), mask=inside)
    tl.store(lse + head * rows + row, softmax_lse(top, mass), mask=is_row)


def tile_sizes(rows: int, head_dim: int, element_size: int) -> tuple[int, int]:
    """Return how many rows and how many keys a tile has.

    Args:
        rows: rows per KV head.
        head_dim, element_size: numbers of a key, and bytes of one.
    """
    tile = LONG_ROWS if rows > LONG else min(ROWS, max(16, power_of_two(rows)))
    width = max(1, tile_bytes(head_dim, element_size) // 256)  # wider: shorter tiles
    return tile, max(16, BLOCK // width)


def attend_dense_triton(inputs: AttendDenseInputs) -> State:
    """Launch `attend_dense` in Triton.

    Args: as `attend_dense`; nothing is checked.
    Returns: as `attend_dense`.
    """
    query, own_keys, own_values = inputs.query, inputs.question_keys, inputs.question_values
    anchor_keys, anchor_values = inputs.anchor_keys, inputs.anchor_values
    streaming_keys, streaming_values = inputs.streaming_keys, inputs.streaming_values
    if streaming_keys is None or streaming_values is None:  # then no program reads them
        streaming_keys, streaming_values = anchor_keys, anchor_values
    heads, rows, head_dim = query.shape
    out = torch.empty(heads, rows, head_dim, dtype=query.dtype, device=query.device)
    lse = torch.empty(heads, rows, dtype=torch.float32, device=query.device)
    tile, block = tile_sizes(rows, head_dim, query.element_size())
    attend_dense_kernel[(ceil_div(rows, tile), heads)](
        query,
        own_keys,
        own_values,
        own_keys.stride(0),
        own_keys.stride(1),
        own_values.stride(0),
        own_values.stride(1),
        own_keys.shape[1],
        inputs.num_tokens,
        anchor_keys,
        anchor_values,
        anchor_keys.stride(0),
        anchor_keys.shape[1],
        streaming_keys,
        streaming_values,
        streaming_keys.stride(0),
        streaming_keys.shape[1],
        inputs.log_last_weight,
        len(anchor_keys),
        out,
        lse,
        rows,
        inputs.scale,
        lse,  # there are no sink logits
        D=head_dim,
        ROWS=tile,
        BLOCK=block,
        SOFTCAP=inputs.softcap,
        WINDOW=inputs.window,
        SINKS=False,
        num_warps=4,
        num_stages=2,
    )
    return State(out, lse)
