"""The first launch of `attend_rows`: centroids are scored, and dense keys attended to."""

import triton
import triton.language as tl

from engine.kernels.batch.inputs import BatchInputs
from engine.kernels.batch.tables import Header
from engine.kernels.batch.triton.helpers import (
    CENTROIDS,
    CLUSTERS_BEGIN,
    DENSE_DOCUMENT_SPLITS,
    DENSE_OWN_SPLITS,
    FIRST_ROW,
    GROUP_DOCUMENT,
    GROUP_ROWS,
    KEY_STRIDE,
    KEYS,
    LENGTH,
    LOG_WEIGHTS,
    NUM_ANCHORS,
    NUM_CHUNKS,
    NUM_CLUSTERS,
    NUM_ROWS,
    NUM_SPLITS,
    NUM_STREAMING,
    OFFSETS,
    PAGE,
    ROW_ANCHORS_BEGIN,
    ROW_DOCUMENT,
    SPLITS_END,
    STREAMING_KEYS,
    STREAMING_VALUES,
    VALUES,
    find_group,
    load_group_queries,
    load_number,
    load_pointer,
    load_record,
    load_width,
)
from engine.kernels.batch.tuning import MIN_QUERY_ROWS
from engine.kernels.batch.workspace import BatchWorkspace
from engine.kernels.shared.overlap import launch_options
from engine.kernels.shared.sizes import ceil_div
from engine.kernels.shared.triton.columns import mask_columns, tile_columns
from engine.kernels.shared.triton.online_softmax import (
    apply_softcap,
    softmax_lse,
    softmax_output,
    update_softmax,
)
from engine.kernels.shared.triton.overlap import release_next_launch, wait_for_previous_launch

ZEROS = 256  # counts that a program clears at a time
DENSE_STAGES = 2


@triton.jit
def _attend_dense(
    item,
    query,
    own_keys,
    own_values,
    sink_logits,
    float_like,
    dense,
    rows,
    pages,
    max_pages,
    documents,
    document_stride,
    dense_out,
    dense_lse,
    max_splits,
    anchor_scores,
    retrieval,
    scale,
    ROWS: tl.constexpr,
    NUM_HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    TILE_ROWS: tl.constexpr,
    D: tl.constexpr,
    SOFTCAP: tl.constexpr,
    WINDOW: tl.constexpr,
    STAGES: tl.constexpr,
    KEEP_SCORES: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Attend to one split of a row's dense keys in one head, and store the state.

    The first splits are the document's (anchors, or a streaming head's keys), the others the
    question's own; the last one, if query heads have sink logits, lies behind all keys. OVERLAP:
    whether this is where the program waits for the previous launch.
    """
    split_keys = load_number(dense, 0)
    of_document = load_number(dense, DENSE_DOCUMENT_SPLITS)
    with_keys = of_document + load_number(dense, DENSE_OWN_SPLITS)
    splits = with_keys
    if sink_logits is not None:
        splits += 1
    split, pair = item % splits, item // splits
    row, head = pair // KV_HEADS, pair % KV_HEADS
    length = load_number(rows, LENGTH * ROWS + row)
    record = load_record(documents, tl.load(rows + ROW_DOCUMENT * ROWS + row), document_stride)
    num_anchors, num_streaming = (
        load_number(record, NUM_ANCHORS),
        load_number(record, NUM_STREAMING),
    )
    is_own = split >= of_document
    streaming_head = tl.maximum(head - retrieval, 0)
    streams = (head >= retrieval) & (split < of_document)
    start = tl.where(is_own, split - of_document, split) * split_keys
    stop = tl.where(is_own, length, tl.where(streams, num_streaming, num_anchors))
    stop = tl.minimum(stop, start + split_keys)
    first = start
    if WINDOW is not None:  # the token is the question's last, and the anchors lie before it
        past = tl.where(is_own, 0, num_anchors)
        first = tl.maximum(start, past + length - WINDOW)
    key_stride = load_width(record, KEY_STRIDE, 16)
    anchor_keys = load_pointer(record, KEYS, query) + head * key_stride
    anchor_values = load_pointer(record, VALUES, query) + head * key_stride
    of_streaming = (streaming_head * num_streaming).to(tl.int64) * D
    streaming_keys = load_pointer(record, STREAMING_KEYS, query) + of_streaming
    streaming_values = load_pointer(record, STREAMING_VALUES, query) + of_streaming
    log_weights = load_pointer(record, LOG_WEIGHTS, float_like) + streaming_head * num_streaming
    keys = tl.where(is_own, own_keys, tl.where(streams, streaming_keys, anchor_keys))
    values = tl.where(is_own, own_values, tl.where(streams, streaming_values, anchor_values))
    member, cols = tl.arange(0, TILE_ROWS), tile_columns(D)
    row_scores = anchor_scores + tl.load(rows + ROW_ANCHORS_BEGIN * ROWS + row) * NUM_HEADS
    row_scores += (head * GROUP + member) * num_anchors  # [TILE_ROWS]
    wait_for_previous_launch(OVERLAP)
    release_next_launch(OVERLAP)
    q = load_group_queries(query, head, row, 1, NUM_HEADS, GROUP, GROUP_PAD, TILE_ROWS, D)
    top = tl.full([TILE_ROWS], float("-inf"), tl.float32)
    mass = tl.zeros([TILE_ROWS], tl.float32)
    total = tl.zeros([TILE_ROWS, cols.shape[0]], tl.float32)
    lane = tl.arange(0, PAGE)  # [PAGE]
    for tile in tl.range(first // PAGE, tl.cdiv(stop, PAGE), num_stages=STAGES):
        key = tile * PAGE + lane
        seen = (key >= first) & (key < stop)
        inside = mask_columns(seen[:, None], D)  # [PAGE, WIDTH]
        page = tl.load(pages + row * max_pages + tile, mask=is_own, other=0)
        begin = tl.where(
            is_own, (page * KV_HEADS + head) * PAGE * D, tl.cast(tile, tl.int64) * PAGE * D
        )
        begin = tl.multiple_of(begin, 16)
        offsets = lane[:, None] * D + cols[None, :]
        k = tl.load(keys + begin + offsets, mask=inside, other=0.0)
        v = tl.load(values + begin + offsets, mask=inside, other=0.0)
        weights = tl.load(log_weights + key, mask=seen & streams, other=0.0)  # [PAGE]
        products = tl.dot(q, tl.trans(k), input_precision="ieee")  # [TILE_ROWS, PAGE]
        scores = apply_softcap(products * scale, SOFTCAP)
        if KEEP_SCORES:
            kept = seen & (head < retrieval) & (split < of_document)
            tl.store(
                row_scores[:, None] + key[None, :],
                scores,
                mask=(member < GROUP)[:, None] & kept[None, :],
            )
        scores = tl.where(seen[None, :], scores + weights[None, :], float("-inf"))
        top, mass, total = update_softmax(scores, v, top, mass, total)
    is_row = member < GROUP
    row_lse = softmax_lse(top, mass)
    if sink_logits is not None:
        is_sink = split == with_keys
        sinks = tl.load(sink_logits + head * GROUP + member, mask=is_row & is_sink, other=0.0)
        row_lse = tl.where(is_sink, sinks.to(tl.float32), row_lse)
    state = (pair * max_splits + split) * GROUP
    tl.store(dense_lse + state + member, row_lse, mask=is_row)
    tl.store(
        dense_out + (state + member)[:, None] * D + cols[None, :],
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
def _score_split(
    item,
    query,
    int_like,
    groups,
    documents,
    document_stride,
    scores,
    cluster_lse,
    retrieval,
    scale,
    ROWS: tl.constexpr,
    NUM_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    SCORE_ROWS: tl.constexpr,
    TILE_ROWS: tl.constexpr,
    D: tl.constexpr,
    SPLIT: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
    SOFTCAP: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Score one split of a head's centroids with all rows of a group; store their log-sum-exp.

    OVERLAP: whether this is where the program waits for the previous launch.
    """
    head, split = item % retrieval, item // retrieval
    group, before = find_group(groups, SPLITS_END, split, ROWS)
    split -= before
    first_row = load_number(groups, FIRST_ROW * ROWS + group)
    num_rows = load_number(groups, GROUP_ROWS * ROWS + group)
    begin = load_number(groups, CLUSTERS_BEGIN * ROWS + group)
    record = load_record(
        documents, tl.load(groups + GROUP_DOCUMENT * ROWS + group), document_stride
    )
    num_clusters = load_number(record, NUM_CLUSTERS)
    centroids = load_pointer(record, CENTROIDS, query) + (head * num_clusters).to(tl.int64) * D
    offsets = load_pointer(record, OFFSETS, int_like) + head * (num_clusters + 1)
    scores += (begin * retrieval + head * num_clusters) * SCORE_ROWS
    start = split * SPLIT
    stop = tl.minimum(start + SPLIT, num_clusters)
    lane, row = tl.arange(0, BLOCK), tl.arange(0, TILE_ROWS)
    log_size = _load_log_sizes(offsets, start + lane, stop)  # [BLOCK]
    if SPLIT == BLOCK:
        c = _load_centroids(centroids, start + lane, stop, D)
    wait_for_previous_launch(OVERLAP)
    release_next_launch(OVERLAP)
    q = load_group_queries(
        query, head, first_row, num_rows, NUM_HEADS, GROUP, GROUP_PAD, TILE_ROWS, D
    )
    top = tl.full([BLOCK, TILE_ROWS], float("-inf"), tl.float32)
    mass = tl.zeros([BLOCK, TILE_ROWS], tl.float32)
    tiles = 1 if SPLIT == BLOCK else tl.cdiv(stop - start, BLOCK)  # of 1 there is no loop
    for tile in tl.range(0, tiles, num_stages=STAGES):
        cluster = start + tile * BLOCK + lane  # [BLOCK]
        if SPLIT > BLOCK:
            c = _load_centroids(centroids, cluster, stop, D)
        products = tl.dot(c, tl.trans(q), input_precision="ieee")  # [BLOCK, TILE_ROWS]
        raw = apply_softcap(products * scale, SOFTCAP)
        tl.store(
            scores + cluster[:, None] * SCORE_ROWS + row[None, :],
            raw,
            mask=(cluster < stop)[:, None] & (row < SCORE_ROWS)[None, :],
        )
        weighted = raw + log_size[:, None]
        if SPLIT == BLOCK:
            top, mass = weighted, mass + 1.0
        else:
            # Each lane keeps its own maximum: no exchange between lanes until the loop is over.
            new_top = tl.maximum(top, weighted)
            finite_top = tl.where(new_top == float("-inf"), 0.0, new_top)
            mass = mass * tl.exp(top - finite_top) + tl.exp(weighted - finite_top)
            top = new_top
            # The sizes of the next tile, while its centroids are being loaded.
            log_size = _load_log_sizes(offsets, cluster + BLOCK, stop)
    highest = tl.max(top, 0)  # [TILE_ROWS]
    level = tl.where(highest == float("-inf"), 0.0, highest)
    total = tl.sum(mass * tl.exp(top - level[None, :]), 0)
    tl.store(
        cluster_lse + item * SCORE_ROWS + row, softmax_lse(highest, total), mask=row < SCORE_ROWS
    )


@triton.jit
def score_kernel(
    query,
    own_keys,
    own_values,
    sink_logits,
    header,
    dense,
    groups,
    rows,
    pages,
    max_pages,
    documents,
    document_stride,
    dense_out,
    dense_lse,
    max_splits,
    anchor_scores,
    scores,
    cluster_lse,
    segment_counts,
    next_item,
    retrieval,
    dense_programs,
    scale,
    ROWS: tl.constexpr,
    NUM_HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    D: tl.constexpr,
    SOFTCAP: tl.constexpr,
    DENSE_ROWS: tl.constexpr,
    SCORE_ROWS: tl.constexpr,
    TILE_ROWS: tl.constexpr,
    SPLIT: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
    DENSE_STAGES: tl.constexpr,
    WINDOW: tl.constexpr,
    KEEP_SCORES: tl.constexpr,
    DENSE_LOOP: tl.constexpr,
    SCORE_LOOP: tl.constexpr,
    ZEROS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Take splits: of a row's dense keys in a head, or of a head's centroids for a group.

    The first `dense_programs` programs take dense keys. A program takes one split, or, where there
    may be more splits than programs (DENSE_LOOP, SCORE_LOOP), every so many.
    """
    program = tl.program_id(0)
    if program < dense_programs:
        splits = load_number(dense, DENSE_DOCUMENT_SPLITS) + load_number(dense, DENSE_OWN_SPLITS)
        if sink_logits is not None:
            splits += 1
        items = load_number(header, NUM_ROWS) * KV_HEADS * splits
        if DENSE_LOOP:
            wait_for_previous_launch(OVERLAP)
            release_next_launch(OVERLAP)
            for item in range(program, items, dense_programs):
                _attend_dense(
                    item, query, own_keys, own_values, sink_logits, dense_lse, dense, rows, pages,
                    max_pages, documents, document_stride, dense_out, dense_lse, max_splits,
                    anchor_scores, retrieval, scale, ROWS, NUM_HEADS, KV_HEADS, GROUP, GROUP_PAD,
                    DENSE_ROWS, D, SOFTCAP, WINDOW, DENSE_STAGES, KEEP_SCORES, False,
                )  # fmt: skip
        else:
            if program < items:
                _attend_dense(
                    program, query, own_keys, own_values, sink_logits, dense_lse, dense, rows,
                    pages, max_pages, documents, document_stride, dense_out, dense_lse, max_splits,
                    anchor_scores, retrieval, scale, ROWS, NUM_HEADS, KV_HEADS, GROUP, GROUP_PAD,
                    DENSE_ROWS, D, SOFTCAP, WINDOW, DENSE_STAGES, KEEP_SCORES, OVERLAP,
                )  # fmt: skip
            else:
                wait_for_previous_launch(OVERLAP)
                release_next_launch(OVERLAP)
    else:
        program -= dense_programs
        programs = tl.num_programs(0) - dense_programs
        items = load_number(header, NUM_SPLITS) * retrieval
        counts = load_number(header, NUM_CHUNKS) * retrieval
        if SCORE_LOOP:
            wait_for_previous_launch(OVERLAP)
            release_next_launch(OVERLAP)
            for item in range(program, items, programs):
                _score_split(
                    item, query, segment_counts, groups, documents, document_stride, scores,
                    cluster_lse, retrieval, scale, ROWS, NUM_HEADS, GROUP, GROUP_PAD, SCORE_ROWS,
                    TILE_ROWS, D, SPLIT, BLOCK, STAGES, SOFTCAP, False,
                )  # fmt: skip
        else:
            if program < items:
                _score_split(
                    program, query, segment_counts, groups, documents, document_stride, scores,
                    cluster_lse, retrieval, scale, ROWS, NUM_HEADS, GROUP, GROUP_PAD, SCORE_ROWS,
                    TILE_ROWS, D, SPLIT, BLOCK, STAGES, SOFTCAP, OVERLAP,
                )  # fmt: skip
            else:
                wait_for_previous_launch(OVERLAP)
                release_next_launch(OVERLAP)
        if program == 0:
            tl.store(next_item, 0)
        # `select_kernel` publishes counts here, and 0 means that there is none yet.
        for first in range(program * ZEROS, counts, programs * ZEROS):
            place = first + tl.arange(0, ZEROS)
            tl.store(segment_counts + place, tl.zeros([ZEROS], tl.int32), mask=place < counts)


def score_triton(inputs: BatchInputs, work: BatchWorkspace) -> None:
    """Launch the first kernel of `attend_rows`.

    Args: as `attend_rows`; `dense_out`, `dense_lse` and, in layers with clusters, `scores`,
        `cluster_lse`, zeros to `segment_counts` and `next_item`, and anchors' scores to
        `anchor_scores` are written.
    """
    s, t, tables, scoring = work.sizes, work.tuning, inputs.tables, inputs.scoring
    has_clusters = inputs.retrieval > 0 and inputs.window is None
    max_splits = work.dense_lse.shape[2]
    dense_items = s.rows * s.kv_heads * max_splits
    score_items = (ceil_div(s.clusters, t.split_clusters) + s.rows) * inputs.retrieval
    dense_programs = min(dense_items, t.dense_programs)
    score_programs = min(score_items, t.score_programs) if has_clusters else 0
    kind = int(Header.DENSE) + (inputs.window is not None) * int(Header.DENSE_SIZE)
    documents = inputs.documents.records
    score_kernel[(dense_programs + score_programs,)](
        inputs.query,
        inputs.keys,
        inputs.values,
        inputs.sink_logits,
        tables.header,
        tables.header[kind:],
        tables.groups,
        tables.rows,
        tables.pages,
        s.max_pages,
        documents[0, inputs.layer],
        documents.stride(0),
        work.dense_out,
        work.dense_lse,
        max_splits,
        work.anchor_scores,
        work.scores,
        work.cluster_lse,
        work.segment_counts,
        work.next_item,
        inputs.retrieval,
        dense_programs,
        scoring.scale,
        ROWS=s.rows,
        NUM_HEADS=s.num_heads,
        KV_HEADS=s.kv_heads,
        GROUP=s.group,
        GROUP_PAD=s.group_pad,
        D=s.head_dim,
        SOFTCAP=scoring.softcap,
        DENSE_ROWS=max(16, s.group_pad),
        SCORE_ROWS=s.tile_rows,
        TILE_ROWS=max(MIN_QUERY_ROWS, s.tile_rows),
        SPLIT=t.split_clusters,
        BLOCK=t.score_block,
        STAGES=t.score_stages,
        DENSE_STAGES=DENSE_STAGES,
        WINDOW=inputs.window,
        KEEP_SCORES=inputs.window is None,
        DENSE_LOOP=dense_items > dense_programs,
        SCORE_LOOP=score_items > score_programs,
        ZEROS=ZEROS,
        num_warps=4,
        **launch_options(t.overlap),
    )
