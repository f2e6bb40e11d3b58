"""`descend` in Triton: level 1 prunes, level 2 is scored below what is left, in one launch."""

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.decode.inputs import ResidentLayer, Scoring
from engine.kernels.decode.triton.select_runs import (
    askers_of,
    count_for,
    denominator,
    limits,
    load_parts,
    padded,
)
from engine.kernels.decode.tuning import LEAST_ROWS
from engine.kernels.decode.workspace import Workspace
from engine.kernels.shared.overlap import launch_options
from engine.kernels.shared.sizes import ceil_div, power_of_two
from engine.kernels.shared.triton.overlap import release, settle
from engine.kernels.shared.triton.tiles import LOG2_E, capped, load_rows, log_mass


@triton.jit
def _asks(bits, question):
    """Whether a question's bit is set [clusters, rows]; bits and the rows' questions are given."""
    return (bits[:, None] >> question[None, :]) & 1 != 0


@triton.jit
def descend_kernel(
    query,
    scale,
    parents,
    upper_scores,
    upper_parts,
    num_upper_parts,
    near_lse,
    thresholds,
    num_upper,
    centroids,
    offsets,
    num_clusters,
    listed,
    scores,
    parts,
    tally,
    NUM_HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    BATCH: tl.constexpr,
    BATCH_PAD: tl.constexpr,
    PARTS_PAD: tl.constexpr,
    NEAR_PARTS: tl.constexpr,
    NEAR_PAD: tl.constexpr,
    ROWS: tl.constexpr,
    D: tl.constexpr,
    SPAN: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
    SOFTCAP: tl.constexpr,
    BY_MAXIMUM: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """One program is SPAN consecutive level-2 clusters of a head.

    It lists those below a cluster that some question keeps, and scores the list in full tiles: a
    pruned one costs no more than the -inf in its place.
    """
    block, head = tl.program_id(0), tl.program_id(1)
    SCORE_ROWS: tl.constexpr = BATCH_PAD * GROUP_PAD
    lane, line = tl.arange(0, SPAN), tl.arange(0, SCORE_ROWS)
    first = block * SPAN
    cluster = first + lane
    real = cluster < num_clusters
    offsets += head * (num_clusters + 1)
    # All loads before the first exchange between lanes: together they cost one latency.
    parent = tl.load(parents + head * num_clusters + cluster, mask=real, other=-1)
    size = -tl.load(offsets + cluster, mask=real, other=0)
    size += tl.load(offsets + cluster + 1, mask=real, other=0)
    wanted = limits(thresholds, BATCH, BATCH_PAD)
    q = load_rows(query, head, NUM_HEADS, GROUP, GROUP_PAD, BATCH, ROWS, D)
    settle(OVERLAP)
    release(OVERLAP)
    far, near = load_parts(
        upper_parts,
        near_lse,
        head,
        num_upper_parts,
        KV_HEADS,
        GROUP,
        GROUP_PAD,
        BATCH,
        SCORE_ROWS,
        PARTS_PAD,
        NEAR_PARTS,
        NEAR_PAD,
    )
    found = tl.load(
        upper_scores + (head * num_upper + parent)[:, None] * SCORE_ROWS + line[None, :],
        mask=(parent >= 0)[:, None],
        other=float("-inf"),
    )
    top, inverse = denominator(far, near)
    bits = askers_of(
        found, top, inverse, wanted, GROUP, GROUP_PAD, BATCH, BATCH_PAD, SPAN, BY_MAXIMUM
    )
    kept = (bits != 0).to(tl.int32)
    num_kept = tl.sum(kept, 0)
    # An entry is a lane and 16 questions' bits, in the program's own stretch of the list.
    listed += head * num_clusters + first
    tl.store(listed + tl.cumsum(kept, 0) - 1, (lane << 16) + bits, mask=bits != 0)
    tl.debug_barrier()
    slot = tl.arange(0, BLOCK)
    entry = tl.load(listed + slot, mask=slot < num_kept, other=0)
    # While the list and its first centroids arrive: what is pruned.
    scores += head * num_clusters * SCORE_ROWS
    own = scores + cluster[:, None] * SCORE_ROWS + line[None, :]
    pruned = tl.full([SPAN, SCORE_ROWS], float("-inf"), tl.float32)
    tl.store(own, pruned, mask=(real & (bits == 0))[:, None])
    row, cols = tl.arange(0, ROWS), tl.arange(0, D)
    centroids += head.to(tl.int64) * num_clusters * D
    for start in tl.range(0, num_kept, BLOCK, num_stages=STAGES):
        at, asked = first + (entry >> 16), entry & 0xFFFF
        c = tl.load(
            centroids + at[:, None] * D + cols[None, :], mask=(asked != 0)[:, None], other=0.0
        )
        # A step ahead, so that centroids never wait for their addresses.
        later = start + BLOCK + slot
        entry = tl.load(listed + later, mask=later < num_kept, other=0)
        raw = capped(tl.dot(c, tl.trans(q), input_precision="ieee") * scale, SOFTCAP)
        if BATCH > 1:
            raw = tl.where(_asks(asked, row // GROUP_PAD), raw, float("-inf"))
        tl.store(
            scores + at[:, None] * SCORE_ROWS + row[None, :],
            raw,
            mask=(asked != 0)[:, None] & (row < SCORE_ROWS)[None, :],
        )
    # A pruned cluster counts with its parent's score: together they make up what that stands for.
    tl.debug_barrier()
    raw = tl.load(own, mask=(bits != 0)[:, None], other=0.0)
    raw = tl.where(_asks(bits, line // GROUP_PAD), raw, found)
    raw = tl.where((size > 0)[:, None], raw, float("-inf"))
    top = tl.max(raw, 0)
    level = tl.where(top == float("-inf"), 0.0, top)
    gained = tl.exp2((raw - level[None, :]) * LOG2_E)
    mass = tl.sum(gained * size.to(tl.float32)[:, None], 0)
    place = (head * tl.num_programs(0) + block) * SCORE_ROWS
    tl.store(parts + place + line, log_mass(top, mass))
    if BATCH > 1:
        count_for(tally + head * BATCH, tl.full([SPAN], 1, tl.int32), bits, BATCH, BATCH_PAD)
    else:
        tl.atomic_add(tally + head, num_kept.to(tl.int64), sem="relaxed")


def descend_triton(
    query: Tensor, layer: ResidentLayer, thresholds: Tensor, work: Workspace, scoring: Scoring
) -> None:
    """See `descend`."""
    s, t, upper = work.sizes, work.tuning, layer.upper
    assert upper is not None
    descend_kernel[(ceil_div(s.num_clusters, t.descend_span), s.retrieval)](
        query,
        scoring.scale,
        upper.parents,
        work.upper_scores,
        work.upper_parts,
        work.upper_parts.shape[1],
        work.near_lse,
        thresholds[0],
        s.num_upper,
        layer.centroids,
        layer.offsets,
        s.num_clusters,
        work.descended,
        work.scores,
        work.parts,
        work.tally[1],
        NUM_HEADS=s.num_heads,
        KV_HEADS=s.kv_heads,
        GROUP=s.group,
        GROUP_PAD=s.group_pad,
        BATCH=s.batch,
        BATCH_PAD=power_of_two(s.batch),
        NEAR_PARTS=work.near_parts,
        ROWS=max(LEAST_ROWS, s.rows),
        D=s.head_dim,
        SPAN=t.descend_span,
        BLOCK=t.descend_block,
        STAGES=t.descend_stages,
        SOFTCAP=scoring.softcap,
        BY_MAXIMUM=scoring.by_maximum,
        **padded(work, work.upper_parts),
        num_warps=t.descend_warps,
        **launch_options(t.overlap),
    )
