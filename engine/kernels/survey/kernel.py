"""`survey` in Triton: near keys and centroids side by side in one launch."""

from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.decoding import QuestionKeys, ResidentLayer, Scoring, StreamingKeys, Workspace
from engine.kernels.decoding.sizes import power_of_two
from engine.kernels.tiles.kernel import absorb, capped, divided, fixed, load_rows, log_mass

NEAR_BLOCK, NEAR_STAGES = 64, 3  # near keys are few: deeper pipelines are for centroids


@triton.jit
def _attend_near(
    query,
    keys,
    values,
    log_weights,
    start,
    stop,
    kv_head,
    question,
    out,
    lse,
    scale,
    NUM_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    ROWS: tl.constexpr,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
    SOFTCAP: tl.constexpr,
):
    """Attend to keys start to stop of one head; out and lse point at this part's slot."""
    q = load_rows(
        query + question * NUM_HEADS * D, kv_head, NUM_HEADS, GROUP, GROUP_PAD, 1, ROWS, D
    )
    row, cols = tl.arange(0, ROWS), tl.arange(0, D)
    top = tl.full([ROWS], float("-inf"), tl.float32)
    mass, total = tl.zeros([ROWS], tl.float32), tl.zeros([ROWS, D], tl.float32)
    for first in tl.range(start, stop, BLOCK, num_stages=STAGES):
        at = first + tl.arange(0, BLOCK)
        seen = at < stop
        k = tl.load(keys + at[:, None] * D + cols[None, :], mask=seen[:, None], other=0.0)
        v = tl.load(values + at[:, None] * D + cols[None, :], mask=seen[:, None], other=0.0)
        scores = capped(tl.dot(q, tl.trans(k), input_precision="ieee") * scale, SOFTCAP)
        if log_weights is not None:
            scores += tl.load(log_weights + at, mask=seen, other=0.0)[None, :]
        scores = tl.where(seen[None, :], scores, float("-inf"))
        top, mass, total = absorb(scores, v, top, mass, total)
    real = row < GROUP
    tl.store(lse + row, log_mass(top, mass), mask=real)
    tl.store(out + row[:, None] * D + cols[None, :], divided(total, mass), mask=real[:, None])


@triton.jit
def _sizes(offsets, cluster, stop):
    """Members of clusters before `stop`; 0 past it."""
    begin = tl.load(offsets + cluster, mask=cluster < stop, other=0)
    return tl.load(offsets + cluster + 1, mask=cluster < stop, other=0) - begin


@triton.jit
def _score(
    q,
    centroids,
    offsets,
    scores,
    parts,
    start,
    stop,
    scale,
    SCORE_ROWS: tl.constexpr,
    ROWS: tl.constexpr,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
    SOFTCAP: tl.constexpr,
):
    """Score centroids start to stop of one head against rows q; all pointers at that head's."""
    row, cols = tl.arange(0, ROWS), tl.arange(0, D)
    top = tl.full([BLOCK, ROWS], float("-inf"), tl.float32)
    mass = tl.zeros([BLOCK, ROWS], tl.float32)
    lane = tl.arange(0, BLOCK)
    size = _sizes(offsets, start + lane, stop)
    for first in tl.range(start, stop, BLOCK, num_stages=STAGES):
        at = first + lane
        real = at < stop
        c = tl.load(centroids + at[:, None] * D + cols[None, :], mask=real[:, None], other=0.0)
        raw = capped(tl.dot(c, tl.trans(q), input_precision="ieee") * scale, SOFTCAP)
        tl.store(
            scores + at[:, None] * SCORE_ROWS + row[None, :],
            raw,
            mask=real[:, None] & (row < SCORE_ROWS)[None, :],
        )
        # Each lane keeps its own maximum: no exchange between lanes until the loop is over.
        filled = (size > 0)[:, None]
        higher = tl.where(filled, tl.maximum(top, raw), top)
        finite = tl.where(higher == float("-inf"), 0.0, higher)
        gained = tl.where(filled, size.to(tl.float32)[:, None] * tl.exp(raw - finite), 0.0)
        mass = mass * tl.exp(top - finite) + gained
        top = higher
        size = _sizes(offsets, at + BLOCK, stop)  # loaded while the next centroids arrive
    highest = tl.max(top, 0)
    level = tl.where(highest == float("-inf"), 0.0, highest)
    whole = tl.sum(mass * tl.exp(top - level[None, :]), 0)
    tl.store(parts + row, log_mass(highest, whole), mask=row < SCORE_ROWS)


@triton.jit
def survey_part(
    item,
    query,
    anchor_keys,
    anchor_values,
    anchor_stride,
    num_anchors,
    streaming_keys,
    streaming_values,
    log_weights,
    streaming_stride,
    num_streaming_keys,
    own_keys,
    own_values,
    own_stride,
    own_lengths,
    near_out,
    near_lse,
    retrieval,
    centroids,
    offsets,
    num_clusters,
    scores,
    parts,
    part_clusters,
    num_parts,
    counts,
    num_counts,
    scale,
    NUM_HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    BATCH: tl.constexpr,
    D: tl.constexpr,
    SOFTCAP: tl.constexpr,
    AROUND_PARTS: tl.constexpr,
    NEAR_PARTS: tl.constexpr,
    NEAR_KEYS: tl.constexpr,
    NEAR_ROWS: tl.constexpr,
    SCORE_ROWS: tl.constexpr,
    ROWS: tl.constexpr,
    COUNTS_PAD: tl.constexpr,
    BLOCK: tl.constexpr,
    NEAR_BLOCK: tl.constexpr,
    NEAR_STAGES: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Item is a part: of a head's near keys for one question, or of a head's centroids."""
    near_programs: tl.constexpr = BATCH * KV_HEADS * NEAR_PARTS
    if item < near_programs:
        part, pair = item % NEAR_PARTS, item // NEAR_PARTS
        question, kv_head = pair // KV_HEADS, pair % KV_HEADS
        start = part * NEAR_KEYS
        out, lse = near_out + item * GROUP * D, near_lse + item * GROUP
        if part >= AROUND_PARTS:
            start -= AROUND_PARTS * NEAR_KEYS
            base = pair.to(tl.int64) * own_stride
            _attend_near(
                query,
                own_keys + base,
                own_values + base,
                None,
                start,
                tl.minimum(start + NEAR_KEYS, tl.load(own_lengths + question)),
                kv_head,
                question,
                out,
                lse,
                scale,
                NUM_HEADS,
                GROUP,
                GROUP_PAD,
                NEAR_ROWS,
                D,
                NEAR_BLOCK,
                NEAR_STAGES,
                SOFTCAP,
            )
        elif kv_head < retrieval:
            base = kv_head.to(tl.int64) * anchor_stride
            _attend_near(
                query,
                anchor_keys + base,
                anchor_values + base,
                None,
                start,
                tl.minimum(start + NEAR_KEYS, num_anchors),
                kv_head,
                question,
                out,
                lse,
                scale,
                NUM_HEADS,
                GROUP,
                GROUP_PAD,
                NEAR_ROWS,
                D,
                NEAR_BLOCK,
                NEAR_STAGES,
                SOFTCAP,
            )
        else:
            slot = kv_head - retrieval
            base = slot.to(tl.int64) * streaming_stride
            _attend_near(
                query,
                streaming_keys + base,
                streaming_values + base,
                log_weights + slot * num_streaming_keys,
                start,
                tl.minimum(start + NEAR_KEYS, num_streaming_keys),
                kv_head,
                question,
                out,
                lse,
                scale,
                NUM_HEADS,
                GROUP,
                GROUP_PAD,
                NEAR_ROWS,
                D,
                NEAR_BLOCK,
                NEAR_STAGES,
                SOFTCAP,
            )
    else:
        scored = item - near_programs
        part, head = scored % num_parts, scored // num_parts
        if part == 0:  # the chunks' counts, which the selection will publish
            chunk = tl.arange(0, COUNTS_PAD)
            tl.store(
                counts + head * num_counts + chunk,
                tl.zeros([COUNTS_PAD], tl.int32),
                mask=chunk < num_counts,
            )
        q = load_rows(query, head, NUM_HEADS, GROUP, GROUP_PAD, BATCH, ROWS, D)
        start = part * part_clusters
        _score(
            q,
            centroids + head.to(tl.int64) * num_clusters * D,
            offsets + head * (num_clusters + 1),
            scores + head * num_clusters * SCORE_ROWS,
            parts + scored * SCORE_ROWS,
            start,
            tl.minimum(start + part_clusters, num_clusters),
            scale,
            SCORE_ROWS,
            ROWS,
            D,
            BLOCK,
            STAGES,
            SOFTCAP,
        )


@triton.jit
def survey_kernel(given):
    """One program an item."""
    survey_part(tl.program_id(0), *given)


def survey_items(work: Workspace) -> int:
    """Parts of near keys, and of centroids."""
    s, parts = work.sizes, work.upper_parts if work.sizes.num_upper else work.parts
    return s.batch * s.kv_heads * work.near_parts + s.retrieval * parts.shape[1]


def survey_given(
    query: Tensor, layer: ResidentLayer, question: QuestionKeys, work: Workspace, scoring: Scoring
) -> tuple[Any, ...]:
    """What `survey_part` takes beside the item."""
    s, t, upper = work.sizes, work.tuning, layer.upper
    scores, parts = (work.upper_scores, work.upper_parts) if upper else (work.scores, work.parts)
    # Without streaming heads no program reads theirs: any tensors will do.
    streaming = layer.streaming or StreamingKeys(question.keys, question.values, work.near_lse)
    return (
        query,
        layer.keys,
        layer.values,
        layer.keys.stride(0),
        s.num_anchors,
        streaming.keys,
        streaming.values,
        streaming.log_weights,
        streaming.keys.stride(0),
        s.num_streaming_keys,
        question.keys,
        question.values,
        question.keys.stride(1),
        question.lengths,
        work.near_out,
        work.near_lse,
        s.retrieval,
        upper.centroids if upper else layer.centroids,
        upper.token_offsets if upper else layer.offsets,
        s.num_upper if upper else s.num_clusters,
        scores,
        parts,
        work.part_clusters,
        max(1, parts.shape[1]),
        work.counts,
        work.counts.shape[1],
        scoring.scale,
        *fixed(
            NUM_HEADS=s.num_heads,
            KV_HEADS=s.kv_heads,
            GROUP=s.group,
            GROUP_PAD=s.group_pad,
            BATCH=s.batch,
            D=s.head_dim,
            SOFTCAP=scoring.softcap,
            AROUND_PARTS=work.around_parts,
            NEAR_PARTS=work.near_parts,
            NEAR_KEYS=t.near_keys,
            NEAR_ROWS=max(16, s.group_pad),
            SCORE_ROWS=s.rows,
            ROWS=max(16, s.rows),
            COUNTS_PAD=power_of_two(work.counts.shape[1]),
            BLOCK=t.score_block,
            NEAR_BLOCK=min(t.score_block, NEAR_BLOCK, t.near_keys),
            NEAR_STAGES=min(t.score_stages, NEAR_STAGES),
            STAGES=t.score_stages,
        ),
    )


def survey_triton(
    query: Tensor, layer: ResidentLayer, question: QuestionKeys, work: Workspace, scoring: Scoring
) -> None:
    """See `survey`."""
    survey_kernel[(survey_items(work),)](
        survey_given(query, layer, question, work, scoring), num_warps=work.tuning.score_warps
    )
