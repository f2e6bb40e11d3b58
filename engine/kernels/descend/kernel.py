"""`descend` in Triton: level 1 prunes, level 2 is scored below what is left, in one launch."""

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.decoding import ResidentLayer, Scoring, Workspace
from engine.kernels.decoding.sizes import ceil_div, power_of_two
from engine.kernels.select_runs.kernel import askers_of, count_for, row_lse
from engine.kernels.tiles.kernel import capped, load_rows, log_mass


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
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
    SOFTCAP: tl.constexpr,
    BY_MAXIMUM: tl.constexpr,
    OVERLAPPED: tl.constexpr,
):
    """One program UPPER consecutive level-1 clusters of a head: their children are one run."""
    if OVERLAPPED:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    block, head = tl.program_id(0), tl.program_id(1)
    SCORE_ROWS: tl.constexpr = BATCH_PAD * GROUP_PAD
    lse = row_lse(
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
    upper, line = block * UPPER + tl.arange(0, UPPER), tl.arange(0, SCORE_ROWS)
    real = upper < num_upper
    found = tl.load(
        upper_scores + (head * num_upper + upper)[:, None] * SCORE_ROWS + line[None, :],
        mask=real[:, None],
        other=float("-inf"),
    )
    bits = askers_of(found, lse, thresholds, GROUP, GROUP_PAD, BATCH, BATCH_PAD, UPPER, BY_MAXIMUM)
    tokens = upper_tokens + head * (num_upper + 1) + upper
    size = tl.load(tokens + 1, mask=real, other=0) - tl.load(tokens, mask=real, other=0)
    bits = tl.where(size > 0, bits, 0)
    kept = (bits[:, None] >> (line // GROUP_PAD)[None, :]) & 1 != 0
    pruned = (size > 0)[:, None] & ~kept
    pruned_top = tl.max(tl.where(pruned, found, float("-inf")), 0)
    upper_base = tl.where(pruned_top == float("-inf"), 0.0, pruned_top)
    gained = tl.where(
        pruned, size.to(tl.float32)[:, None] * tl.exp(found - upper_base[None, :]), 0.0
    )
    pruned_lse = log_mass(pruned_top, tl.sum(gained, 0))

    child = children + head * (num_upper + 1) + upper
    begin, end = tl.load(child, mask=real, other=0), tl.load(child + 1, mask=real, other=0)
    count_for(tally + head * BATCH, end - begin, bits, BATCH, BATCH_PAD)
    q = load_rows(query, head, NUM_HEADS, GROUP, GROUP_PAD, BATCH, ROWS, D)
    row, cols = tl.arange(0, ROWS), tl.arange(0, D)
    top = tl.full([BLOCK, ROWS], float("-inf"), tl.float32)
    mass = tl.zeros([BLOCK, ROWS], tl.float32)
    base = head.to(tl.int64) * num_clusters * D
    stop = tl.max(end, 0)
    for first in tl.range(
        tl.load(children + head * (num_upper + 1) + block * UPPER), stop, BLOCK, num_stages=STAGES
    ):
        at = first + tl.arange(0, BLOCK)
        inside = (at[:, None] >= begin[None, :]) & (at[:, None] < end[None, :])  # [BLOCK, UPPER]
        wanted = tl.sum(tl.where(inside, bits[None, :], 0), 1)  # the parent's bits
        c = tl.load(
            centroids + base + at[:, None] * D + cols[None, :],
            mask=(wanted != 0)[:, None],
            other=0.0,
        )
        member = offsets + head * (num_clusters + 1) + at
        count = tl.load(member + 1, mask=at < stop, other=0) - tl.load(
            member, mask=at < stop, other=0
        )
        raw = capped(tl.dot(c, tl.trans(q), input_precision="ieee") * scale, SOFTCAP)
        seen = (wanted[:, None] >> (row // GROUP_PAD)[None, :]) & 1 != 0
        raw = tl.where(seen, raw, float("-inf"))
        tl.store(
            scores + (head * num_clusters + at)[:, None] * SCORE_ROWS + row[None, :],
            raw,
            mask=(at < stop)[:, None] & (row < SCORE_ROWS)[None, :],
        )
        filled = seen & (count > 0)[:, None]
        higher = tl.where(filled, tl.maximum(top, raw), top)
        finite = tl.where(higher == float("-inf"), 0.0, higher)
        mass = mass * tl.exp(top - finite)
        mass += tl.where(filled, count.to(tl.float32)[:, None] * tl.exp(raw - finite), 0.0)
        top = higher
    highest = tl.max(top, 0)
    level = tl.where(highest == float("-inf"), 0.0, highest)
    kept_lse = log_mass(highest, tl.sum(mass * tl.exp(top - level[None, :]), 0))
    # Two parts a program, kept and pruned mass: the selection adds up all parts of a head.
    place = (head * tl.num_programs(0) + block) * 2 * SCORE_ROWS
    tl.store(parts + place + row, kept_lse, mask=row < SCORE_ROWS)
    tl.store(parts + place + SCORE_ROWS + line, pruned_lse)


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
        ROWS=max(16, s.rows),
        D=s.head_dim,
        UPPER=t.upper,
        BLOCK=t.score_block,
        STAGES=t.descend_stages,
        SOFTCAP=scoring.softcap,
        BY_MAXIMUM=scoring.by_maximum,
        OVERLAPPED=t.overlapped,
        num_warps=t.score_warps,
        **t.launch,
    )
