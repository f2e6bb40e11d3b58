"""`survey` in Triton: near keys and centroids side by side in one launch."""

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.decode.inputs import QuestionKeys, ResidentLayer, Scoring, StreamingKeys
from engine.kernels.decode.tuning import LEAST_ROWS, MOST_CHUNKS
from engine.kernels.decode.workspace import Workspace
from engine.kernels.shared.overlap import launch_options
from engine.kernels.shared.sizes import power_of_two
from engine.kernels.shared.triton.overlap import release, settle
from engine.kernels.shared.triton.tiles import (
    absorb,
    capped,
    divided,
    load_rows,
    log_mass,
    log_size,
)

NEAR_BLOCK, NEAR_STAGES = 64, 2  # a tile of near keys is as large as all stages of centroids


@triton.jit
def _attend_near(
    q,
    keys,
    values,
    log_weights,
    weighted,
    start,
    stop,
    out,
    lse,
    scale,
    GROUP: tl.constexpr,
    ROWS: tl.constexpr,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
    SOFTCAP: tl.constexpr,
):
    """Attend to keys start to stop; out and lse point at this part's slot."""
    row, cols = tl.arange(0, ROWS), tl.arange(0, D)
    top = tl.full([ROWS], float("-inf"), tl.float32)
    mass, total = tl.zeros([ROWS], tl.float32), tl.zeros([ROWS, D], tl.float32)
    # A loop even for one tile: its loads are then asked for together.
    for first in tl.range(start, stop, BLOCK, num_stages=STAGES):
        at = first + tl.arange(0, BLOCK)
        seen = at < stop
        k = tl.load(keys + at[:, None] * D + cols[None, :], mask=seen[:, None], other=0.0)
        v = tl.load(values + at[:, None] * D + cols[None, :], mask=seen[:, None], other=0.0)
        weights = tl.load(log_weights + at, mask=seen & weighted, other=0.0)
        scores = capped(tl.dot(q, tl.trans(k), input_precision="ieee") * scale, SOFTCAP)
        scores = tl.where(seen[None, :], scores + weights[None, :], float("-inf"))
        top, mass, total = absorb(scores, v, top, mass, total)
    real = row < GROUP
    tl.store(lse + row, log_mass(top, mass), mask=real)
    tl.store(out + row[:, None] * D + cols[None, :], divided(total, mass), mask=real[:, None])


@triton.jit
def _log_sizes(offsets, cluster, stop):
    """Logarithms of the members of clusters before `stop`; -inf of an empty one, and past it."""
    begin = tl.load(offsets + cluster, mask=cluster < stop, other=0)
    return log_size(tl.load(offsets + cluster + 1, mask=cluster < stop, other=0) - begin)


@triton.jit
def _load_centroids(centroids, at, stop, D: tl.constexpr):
    """Centroids [BLOCK, D]; zeros from `stop` on."""
    return tl.load(
        centroids + at[:, None] * D + tl.arange(0, D)[None, :],
        mask=(at < stop)[:, None],
        other=0.0,
        eviction_policy="evict_first",
    )


@triton.jit
def _score(
    query,
    head,
    centroids,
    offsets,
    scores,
    parts,
    start,
    stop,
    scale,
    NUM_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    BATCH: tl.constexpr,
    SCORE_ROWS: tl.constexpr,
    ROWS: tl.constexpr,
    D: tl.constexpr,
    ONE_TILE: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
    SOFTCAP: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Score centroids start to stop of a head; all pointers but the query's at that head's."""
    lane, row = tl.arange(0, BLOCK), tl.arange(0, ROWS)
    size = _log_sizes(offsets, start + lane, stop)  # asked for before the query is waited for
    if ONE_TILE:
        c = _load_centroids(centroids, start + lane, stop, D)
    settle(OVERLAP)
    release(OVERLAP)
    q = load_rows(query, head, NUM_HEADS, GROUP, GROUP_PAD, BATCH, ROWS, D)
    top = tl.full([BLOCK, ROWS], float("-inf"), tl.float32)
    mass = tl.zeros([BLOCK, ROWS], tl.float32)
    tiles = 1 if ONE_TILE else tl.cdiv(stop - start, BLOCK)  # of 1 the compiler makes no loop
    for tile in tl.range(0, tiles, num_stages=STAGES):
        at = start + tile * BLOCK + lane
        real = at < stop
        if not ONE_TILE:
            c = _load_centroids(centroids, at, stop, D)
        raw = capped(tl.dot(c, tl.trans(q), input_precision="ieee") * scale, SOFTCAP)
        tl.store(
            scores + at[:, None] * SCORE_ROWS + row[None, :],
            raw,
            mask=real[:, None] & (row < SCORE_ROWS)[None, :],
        )
        gained = raw + size[:, None]
        if ONE_TILE:
            top, mass = gained, mass + 1.0
        else:
            # Each lane keeps its own maximum: no exchange between lanes until the loop is over.
            higher = tl.maximum(top, gained)
            finite = tl.where(higher == float("-inf"), 0.0, higher)
            mass = mass * tl.exp(top - finite) + tl.exp(gained - finite)
            top = higher
            # Those of the next tile, while its centroids arrive.
            size = _log_sizes(offsets, at + BLOCK, stop)
    highest = tl.max(top, 0)
    level = tl.where(highest == float("-inf"), 0.0, highest)
    whole = tl.sum(mass * tl.exp(top - level[None, :]), 0)
    tl.store(parts + row, log_mass(highest, whole), mask=row < SCORE_ROWS)


@triton.jit
def survey_kernel(
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
    ONE_TILE: tl.constexpr,
    BLOCK: tl.constexpr,
    NEAR_BLOCK: tl.constexpr,
    NEAR_STAGES: tl.constexpr,
    STAGES: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """One program is a part: of a head's near keys for one question, or of its centroids."""
    program = tl.program_id(0)
    near_programs: tl.constexpr = BATCH * KV_HEADS * NEAR_PARTS
    if program < near_programs:
        settle(OVERLAP)
        release(OVERLAP)
        part, pair = program % NEAR_PARTS, program // NEAR_PARTS
        question, head = pair // KV_HEADS, pair % KV_HEADS
        start = part * NEAR_KEYS
        streamed = tl.maximum(head - retrieval, 0)
        weighted = (head >= retrieval) & (part < AROUND_PARTS)
        if part >= AROUND_PARTS:
            start -= AROUND_PARTS * NEAR_KEYS
            keys = own_keys + pair.to(tl.int64) * own_stride
            values = own_values + pair.to(tl.int64) * own_stride
            stop = tl.load(own_lengths + question)
        elif head < retrieval:
            keys = anchor_keys + head.to(tl.int64) * anchor_stride
            values = anchor_values + head.to(tl.int64) * anchor_stride
            stop = start * 0 + num_anchors
        else:
            keys = streaming_keys + streamed.to(tl.int64) * streaming_stride
            values = streaming_values + streamed.to(tl.int64) * streaming_stride
            stop = start * 0 + num_streaming_keys
        q = query + question * NUM_HEADS * D
        _attend_near(
            load_rows(q, head, NUM_HEADS, GROUP, GROUP_PAD, 1, NEAR_ROWS, D),
            keys,
            values,
            log_weights + streamed * num_streaming_keys,
            weighted,
            start,
            tl.minimum(start + NEAR_KEYS, stop),
            near_out + program * GROUP * D,
            near_lse + program * GROUP,
            scale,
            GROUP,
            NEAR_ROWS,
            D,
            NEAR_BLOCK,
            NEAR_STAGES,
            SOFTCAP,
        )
    else:
        scored = program - near_programs
        part, head = scored % num_parts, scored // num_parts
        start = part * part_clusters
        _score(
            query,
            head,
            centroids + head.to(tl.int64) * num_clusters * D,
            offsets + head * (num_clusters + 1),
            scores + head * num_clusters * SCORE_ROWS,
            parts + scored * SCORE_ROWS,
            start,
            tl.minimum(start + part_clusters, num_clusters),
            scale,
            NUM_HEADS,
            GROUP,
            GROUP_PAD,
            BATCH,
            SCORE_ROWS,
            ROWS,
            D,
            ONE_TILE,
            BLOCK,
            STAGES,
            SOFTCAP,
            OVERLAP,
        )
        if part == 0:  # the chunks' counts, which the selection will publish
            chunk = tl.arange(0, COUNTS_PAD)
            tl.store(
                counts + head * num_counts + chunk,
                tl.zeros([COUNTS_PAD], tl.int32),
                mask=chunk < num_counts,
            )


def survey_triton(
    query: Tensor, layer: ResidentLayer, question: QuestionKeys, work: Workspace, scoring: Scoring
) -> None:
    """See `survey`."""
    s, t, upper = work.sizes, work.tuning, layer.upper
    scores, parts = (work.upper_scores, work.upper_parts) if upper else (work.scores, work.parts)
    # Without streaming heads no program reads theirs: any tensors will do.
    streaming = layer.streaming or StreamingKeys(question.keys, question.values, work.near_lse)
    survey_kernel[(work.near_lse.shape[:3].numel() + parts.shape[:2].numel(),)](
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
        ROWS=max(LEAST_ROWS, s.rows),
        COUNTS_PAD=power_of_two(max(MOST_CHUNKS, work.counts.shape[1])),
        ONE_TILE=work.part_clusters == t.score_block,
        BLOCK=t.score_block,
        NEAR_BLOCK=min(NEAR_BLOCK, t.near_keys),
        NEAR_STAGES=NEAR_STAGES,
        STAGES=t.score_stages,
        num_warps=4,
        **launch_options(t.overlap),
    )
