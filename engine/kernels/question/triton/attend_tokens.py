"""The launches of a captured prefill that attend to the listed tokens."""

import math

import torch
import triton
import triton.language as tl

from engine.kernels.batch.triton.helpers import (
    KEY_STRIDE,
    KEYS,
    NUM_ANCHORS,
    VALUES,
    load_number,
    load_pointer,
    load_width,
)
from engine.kernels.prefill.triton.attend_tokens.combine import attend_tokens_combine_kernel
from engine.kernels.prefill.triton.attend_tokens.splits import attend_tokens_splits_kernel
from engine.kernels.question.inputs import QuestionInputs
from engine.kernels.question.triton.buffers import KernelBuffers
from engine.kernels.question.triton.helpers import NUM_TOKENS, find_record
from engine.kernels.question.workspace import QuestionWorkspace
from engine.kernels.shared.overlap import can_overlap, launch_options
from engine.kernels.shared.sizes import ceil_div, power_of_two
from engine.kernels.shared.triton.overlap import release_next_launch, wait_for_previous_launch


@triton.jit
def splits_by_table_kernel(
    table,
    documents,
    document_stride,
    query,
    tokens,
    counts,
    out,
    lse,
    heads,
    splits,
    capacity,
    MEMBERS: tl.constexpr,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    TOKENS: tl.constexpr,
    HEADS: tl.constexpr,
    STAGES: tl.constexpr,
    FIXED_MAXIMUM: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """As `attend_tokens_splits_kernel`. MEMBERS: query heads of a group."""
    rows = load_number(table, NUM_TOKENS) * MEMBERS
    record = find_record(table, documents, document_stride)
    clustered = load_number(record, NUM_ANCHORS) * D  # where the first clustered key begins
    keys = load_pointer(record, KEYS, query) + clustered
    values = load_pointer(record, VALUES, query) + clustered
    head_stride = load_width(record, KEY_STRIDE, 16)
    wait_for_previous_launch(OVERLAP)
    release_next_launch(OVERLAP)
    if tl.program_id(0) * ROWS < rows:
        attend_tokens_splits_kernel(
            query, keys, values, tokens, counts, out, lse, rows, heads, splits, capacity,
            head_stride, SCALE, SOFTCAP, D, ROWS, TOKENS, HEADS, STAGES, FIXED_MAXIMUM, False,
            False,
        )  # fmt: skip


@triton.jit
def combine_by_table_kernel(
    table,
    split_out,
    split_lse,
    counts,
    dense_lse,
    out,
    lse,
    heads,
    splits,
    MEMBERS: tl.constexpr,
    D: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
    SPLITS: tl.constexpr,
    TOKENS: tl.constexpr,
    HEADS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """As `attend_tokens_combine_kernel`, over the outputs of dense keys in `out`."""
    rows = load_number(table, NUM_TOKENS) * MEMBERS
    attend_tokens_combine_kernel(
        split_out, split_lse, counts, out, dense_lse, out, lse, rows, heads, splits, D, COLUMNS,
        ROWS, SPLITS, TOKENS, HEADS, OVERLAP,
    )  # fmt: skip


def attend_tokens_by_table(
    inputs: QuestionInputs, work: QuestionWorkspace, buffers: KernelBuffers
) -> None:
    """Attend to the listed tokens, and merge the result with that of dense keys."""
    i, s, b, tiles, heads = inputs, work.sizes, buffers, buffers.tuning.attend, inputs.retrieval
    documents, counts = i.documents.records, work.counts[i.layer]
    overlap = launch_options(tiles.overlap and can_overlap(i.query.device))
    splits_by_table_kernel[ceil_div(s.rows, tiles.rows), tiles.splits + heads - 1](
        i.table.device,
        documents[0, i.layer],
        documents.stride(0),
        b.query,
        b.tokens,
        counts,
        b.split_out,
        b.split_lse,
        heads,
        tiles.splits,
        s.list_tokens,
        MEMBERS=s.group,
        SCALE=i.scoring.scale,
        SOFTCAP=i.scoring.softcap or 0.0,
        D=s.head_dim,
        ROWS=tiles.rows,
        TOKENS=tiles.tokens,
        HEADS=power_of_two(heads),
        STAGES=tiles.stages,
        FIXED_MAXIMUM=tiles.fixed_maximum and i.query.dtype != torch.float16,
        num_warps=tiles.warps,
        **overlap,
    )
    columns = math.gcd(s.head_dim, tiles.combine_columns)
    elements = tiles.combine_rows * tiles.combine_splits * columns
    combine_by_table_kernel[ceil_div(s.rows, tiles.combine_rows), heads, s.head_dim // columns](
        i.table.device,
        b.split_out,
        b.split_lse,
        counts,
        b.dense_lse,
        b.out,
        b.lse,
        heads,
        tiles.splits,
        MEMBERS=s.group,
        D=s.head_dim,
        COLUMNS=columns,
        ROWS=tiles.combine_rows,
        SPLITS=tiles.combine_splits,
        TOKENS=tiles.tokens,
        HEADS=power_of_two(heads),
        num_warps=max(1, min(4, elements // (8 * power_of_two(s.head_dim)))),
        **overlap,
    )
