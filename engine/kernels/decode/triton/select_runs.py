"""`select_runs` in Triton: thresholds are applied and the runs listed in one launch."""

import triton
import triton.language as tl

from engine.kernels.decode.inputs import DecodeInputs
from engine.kernels.decode.triton.helpers import (
    add_read_counts,
    load_partial_lse,
    load_thresholds,
    padded_splits,
    select_by_question,
    sum_denominator,
)
from engine.kernels.decode.workspace import Workspace
from engine.kernels.shared.overlap import launch_options
from engine.kernels.shared.sizes import power_of_two
from engine.kernels.shared.triton.overlap import release_next_launch, wait_for_previous_launch


@triton.jit
def _list_segments(
    segments,
    question_masks,
    place,
    begin,
    size,
    count,
    masks,
    BATCH: tl.constexpr,
    SEGMENT: tl.constexpr,
):
    """Write the segments of every selected cluster to their places in the list.

    Of each cluster [CHUNK]: place, where its first segment goes; begin and size, its run in tokens;
    count, its segments; masks, the questions that select it.
    """
    for index in range(0, tl.max(count, 0)):
        start = begin + index * SEGMENT
        length = tl.minimum(size - index * SEGMENT, SEGMENT)
        tl.store(segments + place + index, start * 32 + length, mask=index < count)
        if BATCH > 1:
            tl.store(question_masks + place + index, masks, mask=index < count)


@triton.jit
def select_runs_kernel(
    scores,
    cluster_lse,
    num_splits,
    dense_lse,
    offsets,
    thresholds,
    num_clusters,
    segments,
    question_masks,
    capacity,
    segment_counts,
    num_chunks,
    num_segments,
    read_counts,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    BATCH: tl.constexpr,
    BATCH_PAD: tl.constexpr,
    SPLITS_PAD: tl.constexpr,
    DENSE_SPLITS: tl.constexpr,
    DENSE_PAD: tl.constexpr,
    CHUNKS_PAD: tl.constexpr,
    CHUNK: tl.constexpr,
    SEGMENT: tl.constexpr,
    BY_MAXIMUM: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Take one chunk of a head's clusters; programs of earlier chunks have ended or are running."""
    chunk, head = tl.program_id(0) % num_chunks, tl.program_id(0) // num_chunks
    ROWS: tl.constexpr = BATCH_PAD * GROUP_PAD
    # All loads come before the first exchange between warps: together they cost one latency.
    cluster, row = chunk * CHUNK + tl.arange(0, CHUNK), tl.arange(0, ROWS)  # [CHUNK], [ROWS]
    exists = cluster < num_clusters
    begin = tl.load(offsets + head * (num_clusters + 1) + cluster, mask=exists, other=0)
    size = tl.load(offsets + head * (num_clusters + 1) + cluster + 1, mask=exists, other=0) - begin
    threshold = load_thresholds(thresholds, BATCH, BATCH_PAD)
    wait_for_previous_launch(OVERLAP)
    release_next_launch(OVERLAP)
    clusters, dense = load_partial_lse(
        cluster_lse,
        dense_lse,
        head,
        num_splits,
        KV_HEADS,
        GROUP,
        GROUP_PAD,
        BATCH,
        ROWS,
        SPLITS_PAD,
        DENSE_SPLITS,
        DENSE_PAD,
    )
    own_scores = tl.load(
        scores + (head * num_clusters + cluster)[:, None] * ROWS + row[None, :],
        mask=exists[:, None],
        other=float("-inf"),
    )  # [CHUNK, ROWS]
    top, inverse = sum_denominator(clusters, dense)
    masks = select_by_question(
        own_scores,
        top,
        inverse,
        threshold,
        GROUP,
        GROUP_PAD,
        BATCH,
        BATCH_PAD,
        CHUNK,
        BY_MAXIMUM,
    )  # [CHUNK]
    count = tl.where(masks != 0, (size + SEGMENT - 1) // SEGMENT, 0)  # segments of each cluster
    own_count = tl.sum(count, 0)
    # Publish this chunk's count (plus 1: 0 means not yet), then wait for those of the chunks before
    # it, whose programs were started earlier. So places, and the order of the list, are the same
    # every time. Nothing but the count is published, so no other write has to be seen before it.
    tl.atomic_xchg(segment_counts + head * num_chunks + chunk, own_count + 1, sem="relaxed")
    # What needs no other chunk is done before their counts are asked for.
    place_in_chunk = tl.cumsum(count, 0) - count
    add_read_counts(read_counts + head * BATCH, size, masks, BATCH, BATCH_PAD)
    other = tl.arange(0, CHUNKS_PAD)
    published = tl.load(
        segment_counts + head * num_chunks + other, mask=other < chunk, other=1, volatile=True
    )
    while tl.min(published, 0) == 0:
        published = tl.load(
            segment_counts + head * num_chunks + other, mask=other < chunk, other=1, volatile=True
        )
    before = tl.sum(published - 1, 0)
    if chunk == num_chunks - 1:
        tl.store(num_segments + head, before + own_count)
    place = head * capacity + before + place_in_chunk  # [CHUNK]
    _list_segments(segments, question_masks, place, begin, size, count, masks, BATCH, SEGMENT)


def select_runs_triton(inputs: DecodeInputs, work: Workspace) -> None:
    """Launch `select_runs` in Triton.

    Args: as `select_runs`.
    """
    s, t, num_chunks = work.sizes, work.tuning, work.segment_counts.shape[1]
    select_runs_kernel[(work.segment_counts.numel(),)](
        work.centroid_scores,
        work.centroid_lse,
        work.centroid_lse.shape[1],
        work.dense_lse,
        inputs.layer.offsets,
        inputs.thresholds[1],
        s.num_clusters,
        work.segments,
        work.question_masks,
        work.segments.shape[1],
        work.segment_counts,
        num_chunks,
        work.num_segments,
        work.read_counts[0],
        KV_HEADS=s.kv_heads,
        GROUP=s.group,
        GROUP_PAD=s.group_pad,
        BATCH=s.batch,
        BATCH_PAD=power_of_two(s.batch),
        DENSE_SPLITS=work.dense_splits,
        CHUNKS_PAD=power_of_two(num_chunks),
        CHUNK=work.chunk_clusters,
        SEGMENT=t.segment_size,
        BY_MAXIMUM=inputs.scoring.by_maximum,
        **padded_splits(work, work.centroid_lse),
        num_warps=t.select_warps,
        **launch_options(t.overlap),
    )
