"""`attend_runs` in Triton: every program attends to an equal share of the listed pieces."""

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.decode.inputs import ResidentLayer, Scoring
from engine.kernels.decode.workspace import Workspace
from engine.kernels.shared.overlap import launch_options
from engine.kernels.shared.sizes import power_of_two
from engine.kernels.shared.triton.overlap import release, settle
from engine.kernels.shared.triton.tiles import capped, divided, load_rows, log_mass


@triton.jit
def load_totals(totals, retrieval, HEADS_PAD: tl.constexpr):
    """Pieces of heads [HEADS_PAD]."""
    heads = tl.arange(0, HEADS_PAD)
    return tl.load(totals + heads, mask=heads < retrieval, other=0)


@triton.jit
def share_of(count, programs, STEP: tl.constexpr):
    """Where each head ends in all pieces [HEADS_PAD], and how many of them a program takes."""
    share = tl.cdiv(tl.cdiv(tl.sum(count, 0), programs), STEP) * STEP
    return tl.cumsum(count, 0), share


@triton.jit
def _absorb(scores, values, top, mass, out):
    """`tiles.absorb`, but mass [ROWS, BLOCK] stays in its lanes: one exchange less a tile."""
    higher = tl.maximum(top, tl.max(scores, 1))
    finite = tl.where(higher == float("-inf"), 0.0, higher)  # rows that have seen no key
    weights = tl.exp(scores - finite[:, None])
    shrink = tl.exp(top - finite)[:, None]
    out = tl.dot(weights.to(values.dtype), values, out * shrink, input_precision="ieee")
    return higher, mass * shrink + weights, out


@triton.jit
def attend_runs_kernel(
    query,
    keys,
    values,
    stride,
    retrieval,
    runs,
    askers,
    capacity,
    totals,
    noted,
    num_keys,
    out,
    lse,
    scale,
    NUM_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    BATCH: tl.constexpr,
    OUT_ROWS: tl.constexpr,
    ROWS: tl.constexpr,
    D: tl.constexpr,
    SOFTCAP: tl.constexpr,
    HEADS_PAD: tl.constexpr,
    PIECE: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
    NOTED: tl.constexpr,
    OVERLAP: tl.constexpr,
    EARLY: tl.constexpr,
):
    """One program is a share: p writes its part of head h to place p + h."""
    program = tl.program_id(0)
    heads, row, cols = tl.arange(0, HEADS_PAD), tl.arange(0, ROWS), tl.arange(0, D)
    STEP: tl.constexpr = BLOCK // PIECE
    settle(OVERLAP)
    release(OVERLAP and EARLY)
    count = load_totals(totals, retrieval, HEADS_PAD)
    ends, share = share_of(count, tl.num_programs(0), STEP)
    low = program * share
    high = tl.minimum(low + share, tl.sum(count, 0))
    first = tl.sum((ends <= low).to(tl.int32), 0)
    last = tl.sum((ends - count < high).to(tl.int32), 0)
    lane = tl.arange(0, BLOCK)
    for head in range(first, last):
        begin = tl.sum(tl.where(heads == head, ends - count, 0), 0)
        start = tl.maximum(low - begin, 0)
        stop = tl.minimum(high - begin, tl.sum(tl.where(heads == head, count, 0), 0))
        if start < stop:
            q = load_rows(query, head, NUM_HEADS, GROUP, GROUP_PAD, BATCH, ROWS, D)
            top = tl.full([ROWS], float("-inf"), tl.float32)
            mass, total = tl.zeros([ROWS, BLOCK], tl.float32), tl.zeros([ROWS, D], tl.float32)
            base = tl.cast(head, tl.int64) * stride
            listed = runs + head * capacity
            run = tl.load(
                listed + start + lane // PIECE, mask=start + lane // PIECE < stop, other=0
            )
            for step in tl.range(start, stop, STEP, num_stages=STAGES):
                piece = step + lane // PIECE  # [BLOCK]
                token = (run >> 5) + lane % PIECE
                seen = lane % PIECE < (run & 31)
                at = token[:, None] * D + cols[None, :]
                k = tl.load(keys + base + at, mask=seen[:, None], other=0.0)
                v = tl.load(values + base + at, mask=seen[:, None], other=0.0)
                scores = capped(tl.dot(q, tl.trans(k), input_precision="ieee") * scale, SOFTCAP)
                visible = seen[None, :]
                if NOTED:
                    place = tl.cast(head, tl.int64) * GROUP * num_keys
                    tl.store(
                        noted + place + row[:, None] * num_keys + token[None, :],
                        scores,
                        mask=(row < GROUP)[:, None] & visible,
                    )
                if BATCH > 1:
                    bits = tl.load(askers + head * capacity + piece, mask=piece < stop, other=0)
                    visible &= (bits[None, :] >> (row // GROUP_PAD)[:, None]) & 1 != 0
                scores = tl.where(visible, scores, float("-inf"))
                top, mass, total = _absorb(scores, v, top, mass, total)
                # A step ahead, so that keys never wait for their addresses.
                run = tl.load(listed + piece + STEP, mask=piece + STEP < stop, other=0)
            mass = tl.sum(mass, 1)
            slot = program + head
            real = row < OUT_ROWS
            tl.store(lse + slot * OUT_ROWS + row, log_mass(top, mass), mask=real)
            tl.store(
                out + (slot * OUT_ROWS + row)[:, None] * D + cols[None, :],
                divided(total, mass),
                mask=real[:, None],
            )


def attend_runs_triton(
    query: Tensor, layer: ResidentLayer, work: Workspace, scoring: Scoring
) -> None:
    """See `attend_runs`."""
    s, t = work.sizes, work.tuning
    attend_runs_kernel[(t.programs,)](
        query,
        layer.keys[:, s.num_anchors :],
        layer.values[:, s.num_anchors :],
        layer.keys.stride(0),
        s.retrieval,
        work.runs,
        work.askers,
        work.runs.shape[1],
        work.totals,
        work.token_scores,
        work.token_scores.shape[2],
        work.part_out,
        work.part_lse,
        scoring.scale,
        NUM_HEADS=s.num_heads,
        GROUP=s.group,
        GROUP_PAD=s.group_pad,
        BATCH=s.batch,
        OUT_ROWS=s.rows,
        ROWS=max(16, s.rows),
        D=s.head_dim,
        SOFTCAP=scoring.softcap,
        HEADS_PAD=power_of_two(s.kv_heads),
        PIECE=t.piece,
        BLOCK=t.block,
        STAGES=t.stages,
        NOTED=work.token_scores.shape[2] > 0,
        num_warps=t.warps,
        EARLY=t.early_merge,
        **launch_options(t.overlap),
    )
