"""`descend` in Triton: level 1 prunes, level 2 is scored below what is left, in one launch."""

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.decoding import ResidentLayer, Scoring, Workspace
from engine.kernels.decoding.sizes import ceil_div, power_of_two
from engine.kernels.decoding.tuning import FEW_ROWS, LEAST_ROWS
from engine.kernels.select_runs.kernel import askers_of, count_for, limits, load_parts, row_lse
from engine.kernels.tiles.kernel import capped, load_rows, log_mass

FILL = 1024  # scores that are pruned at once
MOST_REGISTERS = 255


@triton.jit
def _children(slot, start, since, skipped):
    """Clusters [BLOCK] that lie at so many kept children from `start`."""
    # What is pruned lies before a slot if no more kept children than the slot's do.
    before = since[None, :] <= slot[:, None]  # [BLOCK, UPPER]
    return start + slot + tl.sum(tl.where(before, skipped[None, :], 0), 1)


@triton.jit
def _members(offsets, cluster, real):
    """Tokens of clusters; 0 where not real."""
    begin = tl.load(offsets + cluster, mask=real, other=0)
    return tl.load(offsets + cluster + 1, mask=real, other=0) - begin


@triton.jit
def descend_kernel(
    query,
    scale,
    upper_scores,
    upper_parts,
    num_upper_parts,
    near_lse,
    thresholds,
    children,
    upper_tokens,
    num_upper,
    centroids,
    offsets,
    num_clusters,
    scores,
    parts,
    tally,
    NUM_HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    BATCH: tl.constexpr,
    BATCH_PAD: tl.constexpr,
    UPPER_PARTS_PAD: tl.constexpr,
    NEAR_PARTS: tl.constexpr,
    NEAR_PAD: tl.constexpr,
    ROWS: tl.constexpr,
    D: tl.constexpr,
    UPPER: tl.constexpr,
    FILL: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
    SOFTCAP: tl.constexpr,
    BY_MAXIMUM: tl.constexpr,
):
    """One program is UPPER consecutive level-1 clusters of a head, whose children are one run.

    Tiles are full of kept children, one cluster's behind the other's: a pruned child costs no more
    than the -inf in its place.
    """
    block, head = tl.program_id(0), tl.program_id(1)
    SCORE_ROWS: tl.constexpr = BATCH_PAD * GROUP_PAD
    upper, line = block * UPPER + tl.arange(0, UPPER), tl.arange(0, SCORE_ROWS)
    real = upper < num_upper
    tokens = upper_tokens + head * (num_upper + 1) + upper
    size = tl.load(tokens + 1, mask=real, other=0) - tl.load(tokens, mask=real, other=0)
    child = children + head * (num_upper + 1)
    begin = tl.load(child + upper, mask=real, other=0)
    end = tl.load(child + upper + 1, mask=real, other=0)
    start = tl.load(child + block * UPPER)
    stop = tl.load(child + tl.minimum(block * UPPER + UPPER, num_upper))
    wanted = limits(thresholds, BATCH, BATCH_PAD)
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
        UPPER_PARTS_PAD,
        NEAR_PARTS,
        NEAR_PAD,
    )
    q = load_rows(query, head, NUM_HEADS, GROUP, GROUP_PAD, BATCH, ROWS, D)
    found = tl.load(
        upper_scores + (head * num_upper + upper)[:, None] * SCORE_ROWS + line[None, :],
        mask=real[:, None],
        other=float("-inf"),
    )
    lse = row_lse(far, near)
    # All children are pruned, and those that are kept are overwritten, after the barrier.
    scores += head * num_clusters * SCORE_ROWS
    for first in tl.range(start * SCORE_ROWS, stop * SCORE_ROWS, FILL):
        at = first + tl.arange(0, FILL)
        pruning = tl.full([FILL], float("-inf"), tl.float32)
        tl.store(scores + at, pruning, mask=at < stop * SCORE_ROWS)
    bits = askers_of(found, lse, wanted, GROUP, GROUP_PAD, BATCH, BATCH_PAD, UPPER, BY_MAXIMUM)
    bits = tl.where(size > 0, bits, 0)
    tl.debug_barrier()
    # Slots are the kept children, one cluster's behind the other's: a tile is full of them.
    length = tl.where(bits != 0, end - begin, 0)
    since = tl.cumsum(length, 0) - length
    skipped = end - begin - length
    num_slots = tl.sum(length, 0)
    row, cols = tl.arange(0, ROWS), tl.arange(0, D)
    top = tl.full([BLOCK, ROWS], float("-inf"), tl.float32)
    mass = tl.zeros([BLOCK, ROWS], tl.float32)
    centroids += head.to(tl.int64) * num_clusters * D
    offsets += head * (num_clusters + 1)
    lane = tl.arange(0, BLOCK)
    count = _members(offsets, _children(lane, start, since, skipped), lane < num_slots)
    for first in tl.range(0, num_slots, BLOCK, num_stages=STAGES):
        slot = first + lane
        filled = slot < num_slots
        at = _children(slot, start, since, skipped)
        if BATCH > 1:
            parent = since[None, :] <= slot[:, None]
            parent &= slot[:, None] < (since + length)[None, :]
            asked = tl.sum(tl.where(parent, bits[None, :], 0), 1)
        else:
            asked = filled.to(tl.int32)
        c = tl.load(centroids + at[:, None] * D + cols[None, :], mask=filled[:, None], other=0.0)
        raw = capped(tl.dot(c, tl.trans(q), input_precision="ieee") * scale, SOFTCAP)
        seen = (asked[:, None] >> (row // GROUP_PAD)[None, :]) & 1 != 0
        raw = tl.where(seen, raw, float("-inf"))
        tl.store(
            scores + at[:, None] * SCORE_ROWS + row[None, :],
            raw,
            mask=filled[:, None] & (row < SCORE_ROWS)[None, :],
        )
        counted = seen & (count > 0)[:, None]
        higher = tl.where(counted, tl.maximum(top, raw), top)
        finite = tl.where(higher == float("-inf"), 0.0, higher)
        mass = mass * tl.exp(top - finite)
        mass += tl.where(counted, count.to(tl.float32)[:, None] * tl.exp(raw - finite), 0.0)
        top = higher
        # A step ahead, so that they arrive with the next centroids.
        later = slot + BLOCK
        count = _members(offsets, _children(later, start, since, skipped), later < num_slots)
    highest = tl.max(top, 0)
    level = tl.where(highest == float("-inf"), 0.0, highest)
    kept_lse = log_mass(highest, tl.sum(mass * tl.exp(top - level[None, :]), 0))
    kept = (bits[:, None] >> (line // GROUP_PAD)[None, :]) & 1 != 0
    pruned = (size > 0)[:, None] & ~kept
    pruned_top = tl.max(tl.where(pruned, found, float("-inf")), 0)
    upper_base = tl.where(pruned_top == float("-inf"), 0.0, pruned_top)
    gained = tl.where(
        pruned, size.to(tl.float32)[:, None] * tl.exp(found - upper_base[None, :]), 0.0
    )
    pruned_lse = log_mass(pruned_top, tl.sum(gained, 0))
    # Two parts a program, kept and pruned mass: the selection adds up all parts of a head.
    place = (head * tl.num_programs(0) + block) * 2 * SCORE_ROWS
    tl.store(parts + place + row, kept_lse, mask=row < SCORE_ROWS)
    tl.store(parts + place + SCORE_ROWS + line, pruned_lse)
    count_for(tally + head * BATCH, end - begin, bits, BATCH, BATCH_PAD)


def descend_triton(
    query: Tensor, layer: ResidentLayer, thresholds: Tensor, work: Workspace, scoring: Scoring
) -> None:
    """See `descend`."""
    s, t, upper = work.sizes, work.tuning, layer.upper
    assert upper is not None
    descend_kernel[(ceil_div(s.num_upper, t.upper), s.retrieval)](
        query,
        scoring.scale,
        work.upper_scores,
        work.upper_parts,
        work.upper_parts.shape[1],
        work.near_lse,
        thresholds[0],
        upper.offsets,
        upper.token_offsets,
        s.num_upper,
        layer.centroids,
        layer.offsets,
        s.num_clusters,
        work.scores,
        work.parts,
        work.tally[1],
        NUM_HEADS=s.num_heads,
        KV_HEADS=s.kv_heads,
        GROUP=s.group,
        GROUP_PAD=s.group_pad,
        BATCH=s.batch,
        BATCH_PAD=power_of_two(s.batch),
        UPPER_PARTS_PAD=power_of_two(work.upper_parts.shape[1]),
        NEAR_PARTS=work.near_parts,
        NEAR_PAD=power_of_two(work.near_parts),
        ROWS=max(LEAST_ROWS, s.rows),
        D=s.head_dim,
        UPPER=t.upper,
        FILL=FILL,
        BLOCK=t.descend_block,
        STAGES=t.descend_stages,
        SOFTCAP=scoring.softcap,
        BY_MAXIMUM=scoring.by_maximum,
        num_warps=4,
        maxnreg=t.descend_registers if s.rows <= FEW_ROWS else MOST_REGISTERS,
    )
