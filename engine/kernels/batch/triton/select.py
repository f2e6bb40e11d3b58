"""The second launch of `attend_rows`: thresholds are applied, and the union of runs is listed."""

import triton
import triton.language as tl

from engine.kernels.batch.inputs import BatchInputs
from engine.kernels.batch.triton.helpers import (
    CHUNKS_END,
    CLUSTERS_BEGIN,
    DENSE_DOCUMENT_SPLITS,
    DENSE_OWN_SPLITS,
    FIRST_ROW,
    GROUP_DOCUMENT,
    GROUP_ROWS,
    GROUP_TOKENS_BEGIN,
    NUM_CHUNKS,
    NUM_CLUSTERS,
    NUM_KEYS,
    OFFSETS,
    READS_ALL,
    SEGMENTS_BEGIN,
    SPLITS_END,
    THRESHOLD,
    add_read_bytes,
    find_group,
    load_number,
    load_pointer,
    load_record,
)
from engine.kernels.batch.workspace import BatchWorkspace
from engine.kernels.decode.triton.helpers import select_by_question
from engine.kernels.shared.overlap import launch_options
from engine.kernels.shared.sizes import ceil_div, power_of_two
from engine.kernels.shared.triton.online_softmax import LOG2_E
from engine.kernels.shared.triton.overlap import release_next_launch, wait_for_previous_launch

LSE_BLOCK, COUNTS_BLOCK = 64, 128  # partial sums, and counts of chunks, that are loaded at a time


@triton.jit
def _load_denominator(
    cluster_lse,
    first_split,
    splits,
    retrieval,
    dense_lse,
    head,
    first_row,
    num_rows,
    dense_splits,
    max_splits,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    TILE_ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Add up a lookup's denominator; returns top and inverse [TILE_ROWS].

    The denominator is exp(top) / inverse, and top is finite.
    """
    row, part = tl.arange(0, TILE_ROWS), tl.arange(0, BLOCK)
    place, member = row // GROUP_PAD, row % GROUP_PAD
    is_row = (place < num_rows) & (member < GROUP)
    pair = (first_row + place) * KV_HEADS + head  # [TILE_ROWS]
    top = tl.full([TILE_ROWS], float("-inf"), tl.float32)
    mass = tl.zeros([TILE_ROWS], tl.float32)
    for start in range(0, tl.maximum(splits, dense_splits), BLOCK):
        split = (start + part)[:, None]  # [BLOCK, 1]
        clusters = tl.load(
            cluster_lse + ((first_split + split) * retrieval + head) * TILE_ROWS + row[None, :],
            mask=(split < splits) & is_row[None, :],
            other=float("-inf"),
        )
        dense = tl.load(
            dense_lse + (pair[None, :] * max_splits + split) * GROUP + member[None, :],
            mask=(split < dense_splits) & is_row[None, :],
            other=float("-inf"),
        )
        new_top = tl.maximum(top, tl.max(tl.maximum(clusters, dense), 0))
        level = tl.where(new_top == float("-inf"), 0.0, new_top)
        clusters = tl.exp2((clusters - level[None, :]) * LOG2_E)
        dense = tl.exp2((dense - level[None, :]) * LOG2_E)
        mass = mass * tl.exp2((top - level) * LOG2_E) + tl.sum(clusters + dense, 0)
        top = new_top
    top = tl.where(top == float("-inf"), 0.0, top)
    return top, 1.0 / tl.where(mass > 0.0, mass, 1.0)


@triton.jit
def _sum_counts(counts, step, chunk, BLOCK: tl.constexpr):
    """Wait for the counts of all chunks before this one, and add them up.

    counts: pointer to the first chunk's; they are `step` apart. A count is 0 until it is known.
    """
    before = 0
    for start in range(0, chunk, BLOCK):
        other = start + tl.arange(0, BLOCK)
        published = tl.load(counts + other * step, mask=other < chunk, other=1, volatile=True)
        while tl.min(published, 0) == 0:
            published = tl.load(counts + other * step, mask=other < chunk, other=1, volatile=True)
        before += tl.sum(published - 1, 0)
    return before


@triton.jit
def _select_chunk(
    item,
    scores,
    cluster_lse,
    dense_lse,
    max_splits,
    dense,
    groups,
    rows,
    documents,
    document_stride,
    segments,
    segment_masks,
    token_masks,
    segment_counts,
    num_segments,
    lookup_lse,
    read_bytes,
    retrieval,
    whole_share,
    num_sinks,
    ROWS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    QUESTIONS: tl.constexpr,
    CHUNK: tl.constexpr,
    SEGMENT: tl.constexpr,
    TOKEN_BYTES: tl.constexpr,
    WHOLE: tl.constexpr,
    BY_MAXIMUM: tl.constexpr,
    LSE_BLOCK: tl.constexpr,
    COUNTS_BLOCK: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Take one chunk of a head's clusters for one group."""
    TILE_ROWS: tl.constexpr = QUESTIONS * GROUP_PAD
    head, chunk = item % retrieval, item // retrieval
    group, first_chunk = find_group(groups, CHUNKS_END, chunk, ROWS)
    chunk -= first_chunk
    num_chunks = load_number(groups, CHUNKS_END * ROWS + group) - first_chunk
    splits_end = load_number(groups, SPLITS_END * ROWS + group)
    first_split = splits_end * 0
    if ROWS > 1:
        first_split = load_number(groups, SPLITS_END * ROWS + tl.maximum(group - 1, 0))
        first_split = tl.where(group > 0, first_split, 0)
    first_row = load_number(groups, FIRST_ROW * ROWS + group)
    num_rows = load_number(groups, GROUP_ROWS * ROWS + group)
    reads_all = load_number(groups, READS_ALL * ROWS + group)
    clusters_begin = load_number(groups, CLUSTERS_BEGIN * ROWS + group)
    segments_begin = load_number(groups, SEGMENTS_BEGIN * ROWS + group)
    tokens_begin = load_number(groups, GROUP_TOKENS_BEGIN * ROWS + group)
    dense_splits = load_number(dense, DENSE_DOCUMENT_SPLITS) + load_number(dense, DENSE_OWN_SPLITS)
    record = load_record(
        documents, tl.load(groups + GROUP_DOCUMENT * ROWS + group), document_stride
    )
    num_clusters, num_keys = load_number(record, NUM_CLUSTERS), load_number(record, NUM_KEYS)
    capacity = num_keys // SEGMENT + num_clusters
    offsets = load_pointer(record, OFFSETS, segments) + head * (num_clusters + 1)
    # All loads come before the first exchange between warps: together they cost one latency.
    cluster, row = chunk * CHUNK + tl.arange(0, CHUNK), tl.arange(0, TILE_ROWS)
    exists = (cluster < num_clusters) & (reads_all == 0)
    begin = tl.load(offsets + cluster, mask=exists, other=0)
    size = tl.load(offsets + cluster + 1, mask=exists, other=0) - begin
    question = tl.arange(0, QUESTIONS)
    threshold = tl.load(
        rows + THRESHOLD * ROWS + first_row + question, mask=question < num_rows, other=0
    )
    threshold = threshold.to(tl.int32).to(tl.float32, bitcast=True)
    threshold = tl.where(question < num_rows, threshold, float("inf"))
    wait_for_previous_launch(OVERLAP)
    release_next_launch(OVERLAP)
    of_chunk = (clusters_begin * retrieval + head * num_clusters + cluster) * TILE_ROWS  # [CHUNK]
    if QUESTIONS == 1:
        own_scores = tl.load(
            scores + of_chunk[:, None] + row[None, :], mask=exists[:, None], other=float("-inf")
        )  # [CHUNK, TILE_ROWS]
    top, inverse = _load_denominator(
        cluster_lse,
        first_split,
        tl.where(reads_all == 0, splits_end - first_split, 0),
        retrieval,
        dense_lse,
        head,
        first_row,
        num_rows,
        dense_splits + num_sinks,
        max_splits,
        KV_HEADS,
        GROUP,
        GROUP_PAD,
        TILE_ROWS,
        LSE_BLOCK,
    )
    if chunk == 0:
        place, member = row // GROUP_PAD, row % GROUP_PAD
        tl.store(
            lookup_lse + ((first_row + place) * KV_HEADS + head) * GROUP + member,
            top - tl.log(inverse),
            mask=(place < num_rows) & (member < GROUP),
        )
    if QUESTIONS > 1:  # with the parts of denominators, scores of many rows would spill registers
        own_scores = tl.load(
            scores + of_chunk[:, None] + row[None, :], mask=exists[:, None], other=float("-inf")
        )
    masks = select_by_question(
        own_scores,
        top,
        inverse,
        threshold,
        GROUP,
        GROUP_PAD,
        QUESTIONS,
        QUESTIONS,
        CHUNK,
        BY_MAXIMUM,
    )  # [CHUNK]
    count = tl.where(masks != 0, (size + SEGMENT - 1) // SEGMENT, 0)  # segments of each cluster
    own_count = tl.sum(count, 0)
    # Publish this chunk's count (plus 1: 0 means not yet), then wait for those of the chunks before
    # it, which other programs have taken. So places, and the order of the list, are the same
    # every time. Nothing but the count is published, so no other write has to be seen before it.
    counts = segment_counts + first_chunk * retrieval + head
    tl.atomic_xchg(counts + chunk * retrieval, own_count + 1, sem="relaxed")
    # What needs no other chunk is done before their counts are asked for.
    place_in_chunk = tl.cumsum(count, 0) - count
    is_last = chunk == num_chunks - 1
    whole = tl.cdiv(num_keys, SEGMENT)
    if reads_all == 0:
        add_read_bytes(read_bytes + first_row, size, masks, num_rows, QUESTIONS, TOKEN_BYTES)
        before = _sum_counts(counts, retrieval, chunk, COUNTS_BLOCK)
        if is_last:
            listed = before + own_count
            if WHOLE:
                listed = tl.where(listed >= whole * whole_share, -whole, listed)
            tl.store(num_segments + group * retrieval + head, listed)
        place = segments_begin * retrieval + head * capacity + before + place_in_chunk  # [CHUNK]
        for index in range(0, tl.max(count, 0)):
            start = begin + index * SEGMENT
            length = tl.minimum(size - index * SEGMENT, SEGMENT)
            tl.store(segments + place + index, start * 32 + length, mask=index < count)
            if QUESTIONS > 1:
                tl.store(segment_masks + place + index, masks, mask=index < count)
        if WHOLE:
            of_head = token_masks + tokens_begin * retrieval + head * num_keys
            lane = tl.arange(0, SEGMENT)
            for index in range(0, tl.max((size + SEGMENT - 1) // SEGMENT, 0)):
                token = (begin + index * SEGMENT)[:, None] + lane[None, :]  # [CHUNK, SEGMENT]
                inside = (index * SEGMENT + lane)[None, :] < size[:, None]
                each = tl.broadcast_to(masks[:, None], [CHUNK, SEGMENT])
                tl.store(of_head + token, each, mask=inside)
    else:
        tl.store(num_segments + group * retrieval + head, -whole)


@triton.jit
def select_kernel(
    scores,
    cluster_lse,
    dense_lse,
    max_splits,
    header,
    dense,
    groups,
    rows,
    documents,
    document_stride,
    segments,
    segment_masks,
    token_masks,
    segment_counts,
    next_item,
    num_segments,
    lookup_lse,
    read_bytes,
    retrieval,
    whole_share,
    num_sinks,
    ROWS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    QUESTIONS: tl.constexpr,
    CHUNK: tl.constexpr,
    SEGMENT: tl.constexpr,
    TOKEN_BYTES: tl.constexpr,
    WHOLE: tl.constexpr,
    BY_MAXIMUM: tl.constexpr,
    LSE_BLOCK: tl.constexpr,
    COUNTS_BLOCK: tl.constexpr,
    LOOP: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Take a chunk of a head's clusters, or, where there may be more chunks than programs, several.

    An item waits for items of lower numbers alone, so these must have ended or be running. Programs
    start in ascending order; those that take several items draw the next one from `next_item`
    whenever they have room: none is ever left to a program that has not started.
    """
    program = tl.program_id(0)
    items = load_number(header, NUM_CHUNKS) * retrieval
    if LOOP:
        wait_for_previous_launch(OVERLAP)
        release_next_launch(OVERLAP)
        item = tl.atomic_add(next_item, 1, sem="relaxed")
        while item < items:
            _select_chunk(
                item, scores, cluster_lse, dense_lse, max_splits, dense, groups, rows, documents,
                document_stride, segments, segment_masks, token_masks, segment_counts, num_segments,
                lookup_lse, read_bytes, retrieval, whole_share, num_sinks, ROWS, KV_HEADS, GROUP,
                GROUP_PAD, QUESTIONS, CHUNK, SEGMENT, TOKEN_BYTES, WHOLE, BY_MAXIMUM, LSE_BLOCK,
                COUNTS_BLOCK,
                False,
            )  # fmt: skip
            item = tl.atomic_add(next_item, 1, sem="relaxed")
    else:
        if program < items:
            _select_chunk(
                program, scores, cluster_lse, dense_lse, max_splits, dense, groups, rows, documents,
                document_stride, segments, segment_masks, token_masks, segment_counts, num_segments,
                lookup_lse, read_bytes, retrieval, whole_share, num_sinks, ROWS, KV_HEADS, GROUP,
                GROUP_PAD, QUESTIONS, CHUNK, SEGMENT, TOKEN_BYTES, WHOLE, BY_MAXIMUM, LSE_BLOCK,
                COUNTS_BLOCK,
                OVERLAP,
            )  # fmt: skip
        else:
            wait_for_previous_launch(OVERLAP)
            release_next_launch(OVERLAP)


def select_triton(inputs: BatchInputs, work: BatchWorkspace) -> None:
    """Launch the second kernel of `attend_rows`.

    Args: as `attend_rows`, after `score_triton`; `segments`, `segment_masks`, `token_masks`,
        `num_segments` and `lookup_lse` are written, `read_bytes` is added to.
    """
    s, t, tables = work.sizes, work.tuning, inputs.tables
    items = (ceil_div(s.clusters, work.chunk_clusters) + s.rows) * inputs.retrieval
    programs = min(items, t.select_programs)
    documents = inputs.documents.records
    select_kernel[(programs,)](
        work.scores,
        work.cluster_lse,
        work.dense_lse,
        work.dense_lse.shape[2],
        tables.header,
        tables.header[8:],
        tables.groups,
        tables.rows,
        documents[0, inputs.layer],
        documents.stride(0),
        work.segments,
        work.segment_masks,
        work.token_masks,
        work.segment_counts,
        work.next_item,
        work.num_segments,
        work.lookup_lse,
        work.read_bytes,
        inputs.retrieval,
        t.whole_share,
        int(inputs.sink_logits is not None),
        ROWS=s.rows,
        KV_HEADS=s.kv_heads,
        GROUP=s.group,
        GROUP_PAD=s.group_pad,
        QUESTIONS=s.group_rows,
        CHUNK=power_of_two(work.chunk_clusters),
        SEGMENT=t.segment_size,
        TOKEN_BYTES=2 * s.head_dim * inputs.query.element_size(),
        WHOLE=s.reads_whole,
        BY_MAXIMUM=inputs.scoring.by_maximum,
        LSE_BLOCK=LSE_BLOCK,
        COUNTS_BLOCK=COUNTS_BLOCK,
        LOOP=items > programs,
        num_warps=t.select_warps,
        **launch_options(t.overlap),
    )
