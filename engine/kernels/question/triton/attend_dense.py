"""The launch of a captured prefill that attends to dense keys."""

import triton
import triton.language as tl

from engine.kernels.batch.triton.helpers import (
    KEY_STRIDE,
    KEYS,
    LOG_WEIGHTS,
    NUM_ANCHORS,
    NUM_STREAMING,
    STREAMING_KEYS,
    STREAMING_VALUES,
    VALUES,
    load_number,
    load_pointer,
    load_width,
)
from engine.kernels.prefill.triton.attend_dense import attend_dense_kernel, tile_sizes
from engine.kernels.question.inputs import QuestionInputs
from engine.kernels.question.triton.buffers import KernelBuffers
from engine.kernels.question.triton.helpers import NUM_EARLIER, NUM_TOKENS, find_record
from engine.kernels.question.workspace import QuestionWorkspace
from engine.kernels.shared.sizes import ceil_div


@triton.jit
def attend_dense_by_table_kernel(
    table,
    documents,
    document_stride,
    query,
    own_keys,
    own_values,
    sink_logits,
    out,
    lse,
    retrieval,
    own_tokens,
    scale,
    GROUP: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    SOFTCAP: tl.constexpr,
    WINDOW: tl.constexpr,
    SINKS: tl.constexpr,
):
    """As `attend_dense_kernel`; own_keys, own_values: (kv_heads, own_tokens, D)."""
    tokens = load_number(table, NUM_TOKENS)
    num_own = load_number(table, NUM_EARLIER) + tokens
    rows = tokens * GROUP
    if tl.program_id(0) * ROWS < rows:
        record = find_record(table, documents, document_stride)
        num_streaming = load_number(record, NUM_STREAMING)
        head = tl.program_id(1)
        # A streaming head's last key stands for all that was dropped.
        last = (head - retrieval + 1) * num_streaming - 1
        log_last_weight = tl.load(
            load_pointer(record, LOG_WEIGHTS, lse) + last,
            mask=(head >= retrieval) & (num_streaming > 0),
            other=0.0,
        )
        attend_dense_kernel(
            query, own_keys, own_values, own_tokens * D, D, own_tokens * D, D, num_own, tokens,
            load_pointer(record, KEYS, query), load_pointer(record, VALUES, query),
            load_width(record, KEY_STRIDE, 16), load_number(record, NUM_ANCHORS),
            load_pointer(record, STREAMING_KEYS, query),
            load_pointer(record, STREAMING_VALUES, query), num_streaming * D, num_streaming,
            log_last_weight, retrieval, out, lse, rows, scale, sink_logits, D, ROWS, BLOCK, SOFTCAP,
            WINDOW, SINKS,
        )  # fmt: skip


def attend_dense_by_table(
    inputs: QuestionInputs, work: QuestionWorkspace, buffers: KernelBuffers
) -> None:
    """Attend to the question, and to anchors or a streaming head's keys; sinks take their part."""
    i, s, documents = inputs, work.sizes, inputs.documents.records
    rows, block = tile_sizes(s.rows, s.head_dim, i.query.element_size())
    keys, values = work.own[i.layer]
    attend_dense_by_table_kernel[ceil_div(s.rows, rows), s.kv_heads](
        i.table.device,
        documents[0, i.layer],
        documents.stride(0),
        buffers.query,
        keys,
        values,
        buffers.dense_lse if i.sink_logits is None else i.sink_logits,
        buffers.out,
        buffers.dense_lse,
        i.retrieval,
        s.own_tokens,
        i.scoring.scale,
        GROUP=s.group,
        D=s.head_dim,
        ROWS=rows,
        BLOCK=block,
        SOFTCAP=i.scoring.softcap,
        WINDOW=i.window,
        SINKS=i.sink_logits is not None,
        num_warps=4,
        num_stages=2,
    )
