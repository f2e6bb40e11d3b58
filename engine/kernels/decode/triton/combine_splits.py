"""`merge_splits` in Triton: one program some columns of a row."""

import triton
import triton.language as tl

from engine.kernels.decode.triton.attend_runs import load_totals, share_of
from engine.kernels.decode.workspace import Workspace
from engine.kernels.shared.overlap import launch_options
from engine.kernels.shared.sizes import power_of_two
from engine.kernels.shared.triton.overlap import release, settle
from engine.kernels.shared.triton.tiles import log_mass

COLS = 32  # of a row that a program joins: many short programs, as one waits for memory only


@triton.jit
def _merge(out, lse, first, last, step, top, mass, total, D: tl.constexpr, BLOCK: tl.constexpr):
    """Fold parts first to last, `step` rows apart, into the running state [columns of total]."""
    cols = tl.arange(0, total.shape[0])
    for start in range(first, last, BLOCK):
        part = start + tl.arange(0, BLOCK)
        held = part < last
        # Both at once; what has seen no key is zeros.
        found = tl.load(lse + part * step, mask=held, other=float("-inf"))
        rows = tl.load(
            out + (part * step)[:, None] * D + cols[None, :], mask=held[:, None], other=0.0
        )
        higher = tl.maximum(top, tl.max(found, 0))
        finite = tl.where(higher == float("-inf"), 0.0, higher)
        shares, shrink = tl.exp(found - finite), tl.exp(top - finite)
        mass = mass * shrink + tl.sum(shares, 0)
        total = total * shrink + tl.sum(shares[:, None] * rows, 0)
        top = higher
    return top, mass, total


@triton.jit
def merge_splits_kernel(
    near_out,
    near_lse,
    part_out,
    part_lse,
    totals,
    retrieval,
    programs,
    out,
    lse,
    NUM_HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    PART_ROWS: tl.constexpr,
    D: tl.constexpr,
    COLS: tl.constexpr,
    NEAR_PARTS: tl.constexpr,
    NEAR_PAD: tl.constexpr,
    HEADS_PAD: tl.constexpr,
    STEP: tl.constexpr,
    BLOCK: tl.constexpr,
    BEHIND_RUNS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """One program is some columns of a row: joins its parts, near and over runs, in order."""
    if not BEHIND_RUNS:  # but the survey, which leaves the near parts
        settle(OVERLAP)
    at, column = tl.program_id(0), tl.program_id(1) * COLS
    question, head = at // NUM_HEADS, at % NUM_HEADS
    kv_head, member = head // GROUP, head % GROUP
    heads = tl.arange(0, HEADS_PAD)
    count = load_totals(totals, retrieval, HEADS_PAD)  # waited for after the near parts
    near = (question * KV_HEADS + kv_head) * NEAR_PARTS * GROUP + member
    top, mass, total = _merge(
        near_out + near * D + column,
        near_lse + near,
        0,
        NEAR_PARTS,
        GROUP,
        tl.full([], float("-inf"), tl.float32),
        tl.full([], 0.0, tl.float32),
        tl.zeros([COLS], tl.float32),
        D,
        NEAR_PAD,
    )
    if BEHIND_RUNS:
        settle(OVERLAP)
    release(OVERLAP)
    if kv_head < retrieval:
        ends, share = share_of(count, programs, STEP)
        end = tl.sum(tl.where(heads == kv_head, ends, 0), 0)
        begin = end - tl.sum(tl.where(heads == kv_head, count, 0), 0)
        if begin < end:
            first, last = begin // share + kv_head, (end - 1) // share + kv_head + 1
            row = question * GROUP_PAD + member
            top, mass, total = _merge(
                part_out + row * D + column,
                part_lse + row,
                first,
                last,
                PART_ROWS,
                top,
                mass,
                total,
                D,
                BLOCK,
            )
    if column == 0:
        tl.store(lse + at, log_mass(top, mass))
    cols = column + tl.arange(0, COLS)
    tl.store(out + at * D + cols, total / tl.where(mass > 0.0, mass, 1.0))


def merge_splits_triton(work: Workspace) -> None:
    """See `merge_splits`."""
    s, t = work.sizes, work.tuning
    cols = min(COLS, s.head_dim)
    behind_runs = s.retrieval > 0 and s.num_clusters > 0
    merge_splits_kernel[(s.batch * s.num_heads, s.head_dim // cols)](
        work.near_out,
        work.near_lse,
        work.part_out,
        work.part_lse,
        work.totals,
        s.retrieval if behind_runs else 0,
        t.programs,
        work.out,
        work.lse,
        NUM_HEADS=s.num_heads,
        KV_HEADS=s.kv_heads,
        GROUP=s.group,
        GROUP_PAD=s.group_pad,
        PART_ROWS=s.rows,
        D=s.head_dim,
        COLS=cols,
        NEAR_PARTS=work.near_parts,
        NEAR_PAD=min(t.merge_parts, power_of_two(work.near_parts)),
        HEADS_PAD=power_of_two(s.kv_heads),
        STEP=t.block // t.piece,
        BLOCK=t.merge_parts,
        BEHIND_RUNS=behind_runs,
        num_warps=t.merge_warps,
        **launch_options(t.overlap),
    )
