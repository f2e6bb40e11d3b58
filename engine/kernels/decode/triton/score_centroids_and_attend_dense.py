"""`score_centroids_and_attend_dense` in Triton: both kinds of programs in one launch."""

import triton
import triton.language as tl

from engine.kernels.decode.inputs import DecodeInputs, StreamingKeys
from engine.kernels.decode.triton.helpers import load_query_rows
from engine.kernels.decode.tuning import MAX_CHUNKS, MIN_QUERY_ROWS
from engine.kernels.decode.workspace import Workspace
from engine.kernels.shared.overlap import launch_options
from engine.kernels.shared.sizes import power_of_two
from engine.kernels.shared.triton.columns import mask_columns, tile_columns
from engine.kernels.shared.triton.online_softmax import (
    apply_softcap,
    softmax_lse,
    softmax_output,
    update_softmax,
)
from engine.kernels.shared.triton.overlap import release_next_launch, wait_for_previous_launch

DENSE_BLOCK, DENSE_STAGES = 64, 2  # a tile of dense keys is as large as all stages of centroids


@triton.jit
def _attend_dense(
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
    """Attend with q [ROWS, WIDTH] to the keys `start` to `stop`, and store the state of GROUP rows.

    weighted: whether log_weights are added to the scores. out, lse: pointers to the state.
    """
    row, cols = tl.arange(0, ROWS), tile_columns(D)
    top = tl.full([ROWS], float("-inf"), tl.float32)
    mass, total = tl.zeros([ROWS], tl.float32), tl.zeros([ROWS, cols.shape[0]], tl.float32)
    # A loop even for a single tile: the compiler then issues its loads together.
    for first in tl.range(start, stop, BLOCK, num_stages=STAGES):
        key = first + tl.arange(0, BLOCK)  # [BLOCK]
        seen = key < stop
        inside = mask_columns(seen[:, None], D)  # [BLOCK, WIDTH]
        k = tl.load(keys + key[:, None] * D + cols[None, :], mask=inside, other=0.0)
        v = tl.load(values + key[:, None] * D + cols[None, :], mask=inside, other=0.0)
        weights = tl.load(log_weights + key, mask=seen & weighted, other=0.0)  # [BLOCK]
        products = tl.dot(q, tl.trans(k), input_precision="ieee")  # [ROWS, BLOCK]
        scores = apply_softcap(products * scale, SOFTCAP)
        scores = tl.where(seen[None, :], scores + weights[None, :], float("-inf"))
        top, mass, total = update_softmax(scores, v, top, mass, total)
    is_row = row < GROUP
    tl.store(lse + row, softmax_lse(top, mass), mask=is_row)
    tl.store(
        out + row[:, None] * D + cols[None, :],
        softmax_output(total, mass),
        mask=mask_columns(is_row[:, None], D),
    )


@triton.jit
def _load_log_sizes(offsets, cluster, stop):
    """Return the logarithms of clusters' sizes; -inf of an empty cluster, and from `stop` on."""
    begin = tl.load(offsets + cluster, mask=cluster < stop, other=0)
    size = tl.load(offsets + cluster + 1, mask=cluster < stop, other=0) - begin
    return tl.where(size > 0, tl.log(tl.maximum(size, 1).to(tl.float32)), float("-inf"))


@triton.jit
def _load_centroids(centroids, cluster, stop, D: tl.constexpr):
    """Load the centroids [BLOCK, WIDTH] of the clusters [BLOCK]; zeros from `stop` on."""
    return tl.load(
        centroids + cluster[:, None] * D + tile_columns(D)[None, :],
        mask=mask_columns((cluster < stop)[:, None], D),
        other=0.0,
        eviction_policy="evict_first",
    )


@triton.jit
def _score_centroids(
    query,
    head,
    centroids,
    offsets,
    scores,
    lse,
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
    """Score the centroids `start` to `stop` of a head, and store their log-sum-exp.

    All pointers but `query` are the head's own; lse: [SCORE_ROWS]. ONE_TILE: `stop - start` is at
    most BLOCK.
    """
    lane, row = tl.arange(0, BLOCK), tl.arange(0, ROWS)
    log_size = _load_log_sizes(offsets, start + lane, stop)  # [BLOCK], loaded before the wait
    if ONE_TILE:
        c = _load_centroids(centroids, start + lane, stop, D)
    wait_for_previous_launch(OVERLAP)
    release_next_launch(OVERLAP)
    q = load_query_rows(query, head, NUM_HEADS, GROUP, GROUP_PAD, BATCH, ROWS, D)
    top = tl.full([BLOCK, ROWS], float("-inf"), tl.float32)
    mass = tl.zeros([BLOCK, ROWS], tl.float32)
    tiles = 1 if ONE_TILE else tl.cdiv(stop - start, BLOCK)  # of 1 the compiler makes no loop
    for tile in tl.range(0, tiles, num_stages=STAGES):
        cluster = start + tile * BLOCK + lane  # [BLOCK]
        exists = cluster < stop
        if not ONE_TILE:
            c = _load_centroids(centroids, cluster, stop, D)
        products = tl.dot(c, tl.trans(q), input_precision="ieee")  # [BLOCK, ROWS]
        raw = apply_softcap(products * scale, SOFTCAP)
        tl.store(
            scores + cluster[:, None] * SCORE_ROWS + row[None, :],
            raw,
            mask=exists[:, None] & (row < SCORE_ROWS)[None, :],
        )
        weighted = raw + log_size[:, None]
        if ONE_TILE:
            top, mass = weighted, mass + 1.0
        else:
            # Each lane keeps its own maximum: no exchange between lanes until the loop is over.
            new_top = tl.maximum(top, weighted)
            finite_top = tl.where(new_top == float("-inf"), 0.0, new_top)
            mass = mass * tl.exp(top - finite_top) + tl.exp(weighted - finite_top)
            top = new_top
            # The sizes of the next tile, while its centroids are being loaded.
            log_size = _load_log_sizes(offsets, cluster + BLOCK, stop)
    highest = tl.max(top, 0)  # [ROWS]
    level = tl.where(highest == float("-inf"), 0.0, highest)
    total = tl.sum(mass * tl.exp(top - level[None, :]), 0)
    tl.store(lse + row, softmax_lse(highest, total), mask=row < SCORE_ROWS)


@triton.jit
def score_centroids_and_attend_dense_kernel(
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
    dense_out,
    dense_lse,
    retrieval,
    centroids,
    offsets,
    num_clusters,
    scores,
    cluster_lse,
    split_clusters,
    num_splits,
    segment_counts,
    num_chunks,
    scale,
    NUM_HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    BATCH: tl.constexpr,
    D: tl.constexpr,
    SOFTCAP: tl.constexpr,
    DOCUMENT_SPLITS: tl.constexpr,
    DENSE_SPLITS: tl.constexpr,
    DENSE_KEYS: tl.constexpr,
    DENSE_ROWS: tl.constexpr,
    SCORE_ROWS: tl.constexpr,
    ROWS: tl.constexpr,
    CHUNKS_PAD: tl.constexpr,
    ONE_TILE: tl.constexpr,
    BLOCK: tl.constexpr,
    DENSE_BLOCK: tl.constexpr,
    DENSE_STAGES: tl.constexpr,
    STAGES: tl.constexpr,
    WINDOW: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Take one split: of a head's dense keys for one question, or of a head's centroids.

    The first BATCH x KV_HEADS x DENSE_SPLITS programs attend to dense keys, DENSE_KEYS each: the
    first DOCUMENT_SPLITS splits of a head are the document's (anchors or streaming keys), the
    others the question's own. The remaining programs score `split_clusters` centroids each.
    """
    program = tl.program_id(0)
    dense_programs: tl.constexpr = BATCH * KV_HEADS * DENSE_SPLITS
    if program < dense_programs:
        wait_for_previous_launch(OVERLAP)
        release_next_launch(OVERLAP)
        split, pair = program % DENSE_SPLITS, program // DENSE_SPLITS
        question, head = pair // KV_HEADS, pair % KV_HEADS
        start = split * DENSE_KEYS
        streaming_head = tl.maximum(head - retrieval, 0)
        weighted = (head >= retrieval) & (split < DOCUMENT_SPLITS)
        if split >= DOCUMENT_SPLITS:
            start -= DOCUMENT_SPLITS * DENSE_KEYS
            keys = own_keys + pair.to(tl.int64) * own_stride
            values = own_values + pair.to(tl.int64) * own_stride
            stop = tl.load(own_lengths + question)
        elif head < retrieval:
            keys = anchor_keys + head.to(tl.int64) * anchor_stride
            values = anchor_values + head.to(tl.int64) * anchor_stride
            stop = start * 0 + num_anchors
        else:
            keys = streaming_keys + streaming_head.to(tl.int64) * streaming_stride
            values = streaming_values + streaming_head.to(tl.int64) * streaming_stride
            stop = start * 0 + num_streaming_keys
        first = start
        if WINDOW is not None:  # the token is the question's last, and the anchors lie before it
            past = tl.where(split < DOCUMENT_SPLITS, num_anchors, 0)
            first = tl.maximum(first, past + tl.load(own_lengths + question) - WINDOW)
        q = query + question * NUM_HEADS * D
        _attend_dense(
            load_query_rows(q, head, NUM_HEADS, GROUP, GROUP_PAD, 1, DENSE_ROWS, D),
            keys,
            values,
            log_weights + streaming_head * num_streaming_keys,
            weighted,
            first,
            tl.minimum(start + DENSE_KEYS, stop),
            dense_out + program * GROUP * D,
            dense_lse + program * GROUP,
            scale,
            GROUP,
            DENSE_ROWS,
            D,
            DENSE_BLOCK,
            DENSE_STAGES,
            SOFTCAP,
        )
    else:
        index = program - dense_programs
        split, head = index % num_splits, index // num_splits
        start = split * split_clusters
        _score_centroids(
            query,
            head,
            centroids + head.to(tl.int64) * num_clusters * D,
            offsets + head * (num_clusters + 1),
            scores + head * num_clusters * SCORE_ROWS,
            cluster_lse + index * SCORE_ROWS,
            start,
            tl.minimum(start + split_clusters, num_clusters),
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
        if split == 0:  # `select_runs` publishes counts here, and 0 means that there is none yet
            chunk = tl.arange(0, CHUNKS_PAD)
            tl.store(
                segment_counts + head * num_chunks + chunk,
                tl.zeros([CHUNKS_PAD], tl.int32),
                mask=chunk < num_chunks,
            )


def score_centroids_and_attend_dense_triton(inputs: DecodeInputs, work: Workspace) -> None:
    """Launch `score_centroids_and_attend_dense` in Triton.

    Args: as `score_centroids_and_attend_dense`.
    """
    s, t = work.sizes, work.tuning
    layer, own, upper = inputs.layer, inputs.question, inputs.layer.upper
    scores = work.upper_scores if upper else work.centroid_scores
    cluster_lse = work.upper_lse if upper else work.centroid_lse
    # Without streaming heads no program reads their keys: any tensors will do.
    streaming = layer.streaming or StreamingKeys(own.keys, own.values, work.dense_lse)
    programs = work.dense_lse.shape[:3].numel() + cluster_lse.shape[:2].numel()
    score_centroids_and_attend_dense_kernel[(programs,)](
        inputs.query,
        layer.keys,
        layer.values,
        layer.keys.stride(0),
        s.num_anchors,
        streaming.keys,
        streaming.values,
        streaming.log_weights,
        streaming.keys.stride(0),
        s.num_streaming_keys,
        own.keys,
        own.values,
        own.keys.stride(1),
        own.lengths,
        work.dense_out,
        work.dense_lse,
        s.retrieval,
        upper.centroids if upper else layer.centroids,
        upper.token_offsets if upper else layer.offsets,
        s.num_upper if upper else s.num_clusters,
        scores,
        cluster_lse,
        work.split_clusters,
        max(1, cluster_lse.shape[1]),
        work.segment_counts,
        work.segment_counts.shape[1],
        inputs.scoring.scale,
        NUM_HEADS=s.num_heads,
        KV_HEADS=s.kv_heads,
        GROUP=s.group,
        GROUP_PAD=s.group_pad,
        BATCH=s.batch,
        D=s.head_dim,
        SOFTCAP=inputs.scoring.softcap,
        DOCUMENT_SPLITS=work.document_splits,
        DENSE_SPLITS=work.dense_splits,
        DENSE_KEYS=t.dense_split_keys,
        DENSE_ROWS=max(16, s.group_pad),
        SCORE_ROWS=s.rows,
        ROWS=max(MIN_QUERY_ROWS, s.rows),
        CHUNKS_PAD=power_of_two(max(MAX_CHUNKS, work.segment_counts.shape[1])),
        ONE_TILE=work.split_clusters == t.score_block,
        BLOCK=t.score_block,
        DENSE_BLOCK=min(DENSE_BLOCK, t.dense_split_keys),
        DENSE_STAGES=DENSE_STAGES,
        STAGES=t.score_stages,
        WINDOW=layer.window,
        num_warps=4,
        **launch_options(t.overlap),
    )
