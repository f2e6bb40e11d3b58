"""`combine_splits` in Triton: each program combines some columns of one query head."""

import math

import triton
import triton.language as tl

from engine.kernels.decode.triton.helpers import load_num_segments, split_segments
from engine.kernels.decode.workspace import Workspace
from engine.kernels.shared.overlap import launch_options
from engine.kernels.shared.sizes import power_of_two
from engine.kernels.shared.triton.online_softmax import softmax_lse
from engine.kernels.shared.triton.overlap import release_next_launch, wait_for_previous_launch

COLS = 32  # columns of a program at most: many short ones, as one does nothing but wait for memory


@triton.jit
def combine_states(
    out, lse, first, last, step, top, mass, total, D: tl.constexpr, BLOCK: tl.constexpr
):
    """Add the states `first` to `last`, which are `step` rows apart, to the online softmax.

    out, lse: pointers to the head's columns and its log-sum-exp in state 0. top, mass: scalars, the
    largest log-sum-exp so far and the sum of exp(lse - top). total: [COLS], the weighted outputs.
    """
    cols = tl.arange(0, total.shape[0])
    for start in range(first, last, BLOCK):
        state = start + tl.arange(0, BLOCK)  # [BLOCK]
        exists = state < last
        # Both are loaded at once; the output of a state that has seen no key is zeros.
        lses = tl.load(lse + state * step, mask=exists, other=float("-inf"))  # [BLOCK]
        rows = tl.load(
            out + (state * step)[:, None] * D + cols[None, :], mask=exists[:, None], other=0.0
        )  # [BLOCK, COLS]
        new_top = tl.maximum(top, tl.max(lses, 0))
        finite_top = tl.where(new_top == float("-inf"), 0.0, new_top)
        weights, rescale = tl.exp(lses - finite_top), tl.exp(top - finite_top)
        mass = mass * rescale + tl.sum(weights, 0)
        total = total * rescale + tl.sum(weights[:, None] * rows, 0)
        top = new_top
    return top, mass, total


@triton.jit
def combine_splits_kernel(
    dense_out,
    dense_lse,
    split_out,
    split_lse,
    num_segments,
    retrieval,
    programs,
    out,
    lse,
    NUM_HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    SPLIT_ROWS: tl.constexpr,
    D: tl.constexpr,
    COLS: tl.constexpr,
    DENSE_SPLITS: tl.constexpr,
    DENSE_BLOCK: tl.constexpr,
    HEADS_PAD: tl.constexpr,
    STEP: tl.constexpr,
    BLOCK: tl.constexpr,
    AFTER_RUNS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Combine COLS columns of one query head: its dense splits, then its splits of runs, in order.

    AFTER_RUNS: whether `attend_runs` is the launch right before. Then the dense states, which an
    earlier launch wrote, are combined before the wait.
    """
    if not AFTER_RUNS:
        wait_for_previous_launch(OVERLAP)
    query_row, column = tl.program_id(0), tl.program_id(1) * COLS
    question, head = query_row // NUM_HEADS, query_row % NUM_HEADS
    kv_head, member = head // GROUP, head % GROUP
    heads = tl.arange(0, HEADS_PAD)
    count = load_num_segments(num_segments, retrieval, HEADS_PAD)  # needed after the dense states
    dense = (question * KV_HEADS + kv_head) * DENSE_SPLITS * GROUP + member
    top, mass, total = combine_states(
        dense_out + dense * D + column,
        dense_lse + dense,
        0,
        DENSE_SPLITS,
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
    if kv_head < retrieval:
        ends, share = split_segments(count, programs, STEP)
        end = tl.sum(tl.where(heads == kv_head, ends, 0), 0)
        begin = end - tl.sum(tl.where(heads == kv_head, count, 0), 0)
        if begin < end:
            first, last = begin // share + kv_head, (end - 1) // share + kv_head + 1  # slots
            row = question * GROUP_PAD + member
            top, mass, total = combine_states(
                split_out + row * D + column,
                split_lse + row,
                first,
                last,
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


def combine_splits_triton(work: Workspace) -> None:
    """Launch `combine_splits` in Triton.

    Args: as `combine_splits`.
    """
    s, t = work.sizes, work.tuning
    cols = math.gcd(COLS, s.head_dim)
    after_runs = s.retrieval > 0 and s.num_clusters > 0
    combine_splits_kernel[(s.batch * s.num_heads, s.head_dim // cols)](
        work.dense_out,
        work.dense_lse,
        work.split_out,
        work.split_lse,
        work.num_segments,
        s.retrieval if after_runs else 0,
        t.attend_programs,
        work.out,
        work.lse,
        NUM_HEADS=s.num_heads,
        KV_HEADS=s.kv_heads,
        GROUP=s.group,
        GROUP_PAD=s.group_pad,
        SPLIT_ROWS=s.rows,
        D=s.head_dim,
        COLS=cols,
        DENSE_SPLITS=work.dense_splits,
        DENSE_BLOCK=min(t.combine_block, power_of_two(work.dense_splits)),
        HEADS_PAD=power_of_two(s.kv_heads),
        STEP=t.attend_block // t.segment_size,
        BLOCK=t.combine_block,
        AFTER_RUNS=after_runs,
        num_warps=t.combine_warps,
        **launch_options(t.overlap),
    )
