"""The last launch of `attend_rows`: each program combines some columns of one query head."""

import math

import triton
import triton.language as tl

from engine.kernels.batch.inputs import BatchInputs
from engine.kernels.batch.tables import Header
from engine.kernels.batch.triton.helpers import (
    DENSE_DOCUMENT_SPLITS,
    DENSE_OWN_SPLITS,
    FIRST_ROW,
    NUM_GROUPS,
    NUM_ROWS,
    ROW_GROUP,
    load_listed,
    load_number,
)
from engine.kernels.batch.workspace import BatchWorkspace
from engine.kernels.decode.triton.combine_splits import COLS, combine_states
from engine.kernels.decode.triton.helpers import split_segments
from engine.kernels.shared.overlap import launch_options
from engine.kernels.shared.sizes import power_of_two
from engine.kernels.shared.triton.online_softmax import softmax_lse
from engine.kernels.shared.triton.overlap import release_next_launch, wait_for_previous_launch

DENSE_BLOCK = 16


@triton.jit
def combine_kernel(
    dense_out,
    dense_lse,
    max_splits,
    split_out,
    split_lse,
    num_segments,
    header,
    dense,
    groups,
    rows,
    retrieval,
    programs,
    num_sinks,
    out,
    lse,
    ROWS: tl.constexpr,
    NUM_HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    SPLIT_ROWS: tl.constexpr,
    D: tl.constexpr,
    COLS: tl.constexpr,
    PAIRS_PAD: tl.constexpr,
    STEP: tl.constexpr,
    DENSE_BLOCK: tl.constexpr,
    BLOCK: tl.constexpr,
    AFTER_RUNS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Combine COLS columns of one query head: its dense splits, then its splits of runs, in order.

    AFTER_RUNS: whether `attend_kernel` is the launch right before. Then the dense states, which an
    earlier launch wrote, are combined before the wait.
    """
    query_row, column = tl.program_id(0), tl.program_id(1) * COLS
    row, head = query_row // NUM_HEADS, query_row % NUM_HEADS
    kv_head, member = head // GROUP, head % GROUP
    pairs = tl.arange(0, PAIRS_PAD)
    group = load_number(rows, ROW_GROUP * ROWS + row)
    first_row = load_number(groups, FIRST_ROW * ROWS + group)
    exists = row < load_number(header, NUM_ROWS)
    num_pairs = load_number(header, NUM_GROUPS) * retrieval
    splits = load_number(dense, DENSE_DOCUMENT_SPLITS) + load_number(dense, DENSE_OWN_SPLITS)
    splits = tl.where(exists, splits + num_sinks, 0)
    if not AFTER_RUNS:
        wait_for_previous_launch(OVERLAP)
    listed = load_listed(num_segments, num_pairs, PAIRS_PAD)
    first = (row * KV_HEADS + kv_head) * max_splits * GROUP + member
    top, mass, total = combine_states(
        dense_out + first.to(tl.int64) * D + column,
        dense_lse + first,
        0,
        splits,
        GROUP,
        tl.full([], float("-inf"), tl.float32),
        tl.full([], 0.0, tl.float32),
        tl.zeros([COLS], tl.float32),
        D,
        DENSE_BLOCK,
    )
    if AFTER_RUNS:
        wait_for_previous_launch(OVERLAP)
    release_next_launch(OVERLAP)
    if (kv_head < retrieval) & exists:
        count = tl.abs(listed)
        ends, share = split_segments(count, programs, STEP)
        pair = group * retrieval + kv_head
        end = tl.sum(tl.where(pairs == pair, ends, 0), 0)
        begin = end - tl.sum(tl.where(pairs == pair, count, 0), 0)
        if begin < end:
            first_slot, last_slot = begin // share + pair, (end - 1) // share + pair + 1
            tile_row = (row - first_row) * GROUP_PAD + member
            top, mass, total = combine_states(
                split_out + tile_row * D + column,
                split_lse + tile_row,
                first_slot,
                last_slot,
                SPLIT_ROWS,
                top,
                mass,
                total,
                D,
                BLOCK,
            )
    if column == 0:
        tl.store(lse + query_row, softmax_lse(top, mass))
    cols = column + tl.arange(0, COLS)
    tl.store(out + query_row * D + cols, total / tl.where(mass > 0.0, mass, 1.0))


def combine_triton(inputs: BatchInputs, work: BatchWorkspace) -> None:
    """Launch the last kernel of `attend_rows`.

    Args: as `attend_rows`, after `attend_triton`, or after `score_triton` in a layer without
        clusters; `out` and `lse` are written.
    """
    s, t, tables = work.sizes, work.tuning, inputs.tables
    cols = math.gcd(COLS, s.head_dim)
    after_runs = inputs.retrieval > 0 and inputs.window is None
    retrieval = inputs.retrieval if after_runs else 0
    kind = int(Header.DENSE) + (inputs.window is not None) * int(Header.DENSE_SIZE)
    combine_kernel[(s.rows * s.num_heads, s.head_dim // cols)](
        work.dense_out,
        work.dense_lse,
        work.dense_lse.shape[2],
        work.split_out,
        work.split_lse,
        work.num_segments,
        tables.header,
        tables.header[kind:],
        tables.groups,
        tables.rows,
        retrieval,
        t.attend_programs,
        int(inputs.sink_logits is not None),
        work.out,
        work.lse,
        ROWS=s.rows,
        NUM_HEADS=s.num_heads,
        KV_HEADS=s.kv_heads,
        GROUP=s.group,
        GROUP_PAD=s.group_pad,
        SPLIT_ROWS=s.tile_rows,
        D=s.head_dim,
        COLS=cols,
        PAIRS_PAD=power_of_two(s.rows * max(1, retrieval)),
        STEP=t.attend_block // t.segment_size,
        DENSE_BLOCK=DENSE_BLOCK,
        BLOCK=t.combine_block,
        AFTER_RUNS=after_runs,
        num_warps=t.combine_warps,
        **launch_options(t.overlap),
    )
