"""The first and the last launch of a layer: rows are packed, and unpacked again."""

import triton
import triton.language as tl

from engine.kernels.batch.triton.helpers import load_number
from engine.kernels.question.inputs import QuestionInputs
from engine.kernels.question.triton.buffers import KernelBuffers
from engine.kernels.question.triton.helpers import NUM_EARLIER, NUM_TOKENS
from engine.kernels.question.workspace import QuestionWorkspace
from engine.kernels.shared.sizes import ceil_div
from engine.kernels.shared.triton.columns import mask_columns, tile_columns

TOKENS = 16  # of a program


@triton.jit
def pack_rows_kernel(
    query,
    query_head,
    query_token,
    key,
    key_head,
    key_token,
    value,
    value_head,
    value_token,
    table,
    packed,
    own,
    own_tokens,
    heads,
    kv_heads,
    D: tl.constexpr,
    TOKENS: tl.constexpr,
):
    """Copy some tokens of one head: of queries, then of keys, then of values.

    `query_head`, ...: elements between heads; `query_token`, ...: between tokens. packed: queries
    (heads, n, D) of n tokens; own: (2, kv_heads, own_tokens, D), behind the earlier ones.
    """
    token, cols = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS), tile_columns(D)
    head, row = tl.program_id(1).to(tl.int64), token[:, None].to(tl.int64)
    num_tokens = load_number(table, NUM_TOKENS)
    place = load_number(table, NUM_EARLIER) + row
    inside = mask_columns((token < num_tokens)[:, None], D)  # [TOKENS, WIDTH]
    of_own = head - heads
    if head < heads:
        x = tl.load(query + head * query_head + row * query_token + cols, mask=inside, other=0.0)
        tl.store(packed + (head * num_tokens + row) * D + cols, x, mask=inside)
    elif of_own < kv_heads:
        x = tl.load(key + of_own * key_head + row * key_token + cols, mask=inside, other=0.0)
        tl.store(own + (of_own * own_tokens + place) * D + cols, x, mask=inside)
    else:
        at = (of_own - kv_heads) * value_head + row * value_token
        x = tl.load(value + at + cols, mask=inside, other=0.0)
        tl.store(own + (of_own * own_tokens + place) * D + cols, x, mask=inside)


@triton.jit
def unpack_rows_kernel(packed, table, out, size, heads, D: tl.constexpr, TOKENS: tl.constexpr):
    """Copy some tokens' outputs of one head; zeros for padding.

    packed: (heads, n, D) of n tokens; out: (size, heads, D).
    """
    token, cols = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS), tile_columns(D)
    head, row = tl.program_id(1).to(tl.int64), token[:, None].to(tl.int64)
    num_tokens = load_number(table, NUM_TOKENS)
    inside = mask_columns((token < num_tokens)[:, None], D)  # [TOKENS, WIDTH]
    x = tl.load(packed + (head * num_tokens + row) * D + cols, mask=inside, other=0.0)
    exists = mask_columns((token < size)[:, None], D)
    tl.store(out + (row * heads + head) * D + cols, x, mask=exists)


def pack_rows(inputs: QuestionInputs, work: QuestionWorkspace, buffers: KernelBuffers) -> None:
    """Pack the queries, and put the keys and values into their places."""
    i, s = inputs, work.sizes
    pack_rows_kernel[ceil_div(s.tokens, TOKENS), s.num_heads + 2 * s.kv_heads](
        i.query,
        i.query.stride(0),
        i.query.stride(1),
        i.key,
        i.key.stride(0),
        i.key.stride(1),
        i.value,
        i.value.stride(0),
        i.value.stride(1),
        i.table.device,
        buffers.query,
        work.own[i.layer],
        s.own_tokens,
        s.num_heads,
        s.kv_heads,
        D=s.head_dim,
        TOKENS=TOKENS,
        num_warps=4,
    )


def unpack_rows(inputs: QuestionInputs, work: QuestionWorkspace, buffers: KernelBuffers) -> None:
    """Bring the outputs into the order of the tokens."""
    s = work.sizes
    unpack_rows_kernel[ceil_div(s.tokens, TOKENS), s.num_heads](
        buffers.out,
        inputs.table.device,
        work.out,
        s.tokens,
        s.num_heads,
        D=s.head_dim,
        TOKENS=TOKENS,
        num_warps=4,
    )
