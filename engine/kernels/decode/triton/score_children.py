"""`score_children` in Triton: level 1 prunes, and level 2 is scored below what is left."""

import triton
import triton.language as tl

from engine.kernels.decode.inputs import DecodeInputs
from engine.kernels.decode.triton.helpers import (
    add_read_counts,
    load_partial_lse,
    load_query_rows,
    load_thresholds,
    padded_splits,
    select_by_question,
    sum_denominator,
)
from engine.kernels.decode.tuning import MIN_QUERY_ROWS
from engine.kernels.decode.workspace import Workspace
from engine.kernels.shared.overlap import launch_options
from engine.kernels.shared.sizes import ceil_div, power_of_two
from engine.kernels.shared.triton.columns import mask_columns, tile_columns
from engine.kernels.shared.triton.online_softmax import LOG2_E, apply_softcap, softmax_lse
from engine.kernels.shared.triton.overlap import release_next_launch, wait_for_previous_launch


@triton.jit
def _is_selected(masks, question):
    """Return whether masks [CLUSTERS] have the bits of questions [ROWS] set: [CLUSTERS, ROWS]."""
    return (masks[:, None] >> question[None, :]) & 1 != 0


@triton.jit
def score_children_kernel(
    query,
    scale,
    parents,
    upper_scores,
    upper_lse,
    num_upper_splits,
    dense_lse,
    thresholds,
    num_upper,
    centroids,
    offsets,
    num_clusters,
    candidates,
    scores,
    cluster_lse,
    read_counts,
    NUM_HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    BATCH: tl.constexpr,
    BATCH_PAD: tl.constexpr,
    SPLITS_PAD: tl.constexpr,
    DENSE_SPLITS: tl.constexpr,
    DENSE_PAD: tl.constexpr,
    ROWS: tl.constexpr,
    D: tl.constexpr,
    SPAN: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
    SOFTCAP: tl.constexpr,
    BY_MAXIMUM: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Take SPAN consecutive level-2 clusters of a head.

    The program lists those whose parent some question selects, and scores the list in full tiles: a
    pruned cluster costs no more than writing -inf in its place.
    """
    block, head = tl.program_id(0), tl.program_id(1)
    SCORE_ROWS: tl.constexpr = BATCH_PAD * GROUP_PAD
    lane, score_row = tl.arange(0, SPAN), tl.arange(0, SCORE_ROWS)
    first = block * SPAN
    cluster = first + lane  # [SPAN]
    exists = cluster < num_clusters
    offsets += head * (num_clusters + 1)
    # All loads come before the first exchange between lanes: together they cost one latency.
    parent = tl.load(parents + head * num_clusters + cluster, mask=exists, other=-1)
    size = -tl.load(offsets + cluster, mask=exists, other=0)
    size += tl.load(offsets + cluster + 1, mask=exists, other=0)
    threshold = load_thresholds(thresholds, BATCH, BATCH_PAD)
    q = load_query_rows(query, head, NUM_HEADS, GROUP, GROUP_PAD, BATCH, ROWS, D)
    wait_for_previous_launch(OVERLAP)
    release_next_launch(OVERLAP)
    clusters, dense = load_partial_lse(
        upper_lse,
        dense_lse,
        head,
        num_upper_splits,
        KV_HEADS,
        GROUP,
        GROUP_PAD,
        BATCH,
        SCORE_ROWS,
        SPLITS_PAD,
        DENSE_SPLITS,
        DENSE_PAD,
    )
    parent_scores = tl.load(
        upper_scores + (head * num_upper + parent)[:, None] * SCORE_ROWS + score_row[None, :],
        mask=(parent >= 0)[:, None],
        other=float("-inf"),
    )  # [SPAN, SCORE_ROWS]
    top, inverse = sum_denominator(clusters, dense)
    masks = select_by_question(
        parent_scores,
        top,
        inverse,
        threshold,
        GROUP,
        GROUP_PAD,
        BATCH,
        BATCH_PAD,
        SPAN,
        BY_MAXIMUM,
    )  # [SPAN]
    is_candidate = (masks != 0).to(tl.int32)
    num_candidates = tl.sum(is_candidate, 0)
    # A candidate is a lane and the mask of 16 questions, in the program's own part of the list.
    candidates += head * num_clusters + first
    slots = candidates + tl.cumsum(is_candidate, 0) - 1  # [SPAN]
    tl.store(slots, (lane << 16) + masks, mask=masks != 0)
    tl.debug_barrier()
    slot = tl.arange(0, BLOCK)
    candidate = tl.load(candidates + slot, mask=slot < num_candidates, other=0)  # [BLOCK]
    # What is pruned is written while the list and its first centroids are being loaded.
    scores += head * num_clusters * SCORE_ROWS
    own_scores = scores + cluster[:, None] * SCORE_ROWS + score_row[None, :]
    pruned = tl.full([SPAN, SCORE_ROWS], float("-inf"), tl.float32)
    tl.store(own_scores, pruned, mask=(exists & (masks == 0))[:, None])
    row, cols = tl.arange(0, ROWS), tile_columns(D)
    centroids += head.to(tl.int64) * num_clusters * D
    for start in tl.range(0, num_candidates, BLOCK, num_stages=STAGES):
        child, child_masks = first + (candidate >> 16), candidate & 0xFFFF  # [BLOCK]
        c = tl.load(
            centroids + child[:, None] * D + cols[None, :],
            mask=mask_columns((child_masks != 0)[:, None], D),
            other=0.0,
        )  # [BLOCK, WIDTH]
        # One step ahead, so that loads of centroids never wait for their addresses.
        later = start + BLOCK + slot
        candidate = tl.load(candidates + later, mask=later < num_candidates, other=0)
        products = tl.dot(c, tl.trans(q), input_precision="ieee")  # [BLOCK, ROWS]
        raw = apply_softcap(products * scale, SOFTCAP)
        if BATCH > 1:
            raw = tl.where(_is_selected(child_masks, row // GROUP_PAD), raw, float("-inf"))
        tl.store(
            scores + child[:, None] * SCORE_ROWS + row[None, :],
            raw,
            mask=(child_masks != 0)[:, None] & (row < SCORE_ROWS)[None, :],
        )
    # A pruned cluster counts in the denominator with its parent's score: together the children of a
    # pruned parent weigh exactly what the parent does.
    tl.debug_barrier()
    raw = tl.load(own_scores, mask=(masks != 0)[:, None], other=0.0)  # [SPAN, SCORE_ROWS]
    raw = tl.where(_is_selected(masks, score_row // GROUP_PAD), raw, parent_scores)
    raw = tl.where((size > 0)[:, None], raw, float("-inf"))
    top = tl.max(raw, 0)  # [SCORE_ROWS]
    level = tl.where(top == float("-inf"), 0.0, top)
    weights = tl.exp2((raw - level[None, :]) * LOG2_E)
    mass = tl.sum(weights * size.to(tl.float32)[:, None], 0)
    split = (head * tl.num_programs(0) + block) * SCORE_ROWS
    tl.store(cluster_lse + split + score_row, softmax_lse(top, mass))
    if BATCH > 1:
        ones = tl.full([SPAN], 1, tl.int32)
        add_read_counts(read_counts + head * BATCH, ones, masks, BATCH, BATCH_PAD)
    else:
        tl.atomic_add(read_counts + head, num_candidates.to(tl.int64), sem="relaxed")


def score_children_triton(inputs: DecodeInputs, work: Workspace) -> None:
    """Launch `score_children` in Triton.

    Args: as `score_children`.
    """
    s, t, layer, upper = work.sizes, work.tuning, inputs.layer, inputs.layer.upper
    assert upper is not None
    score_children_kernel[(ceil_div(s.num_clusters, t.child_span), s.retrieval)](
        inputs.query,
        inputs.scoring.scale,
        upper.parents,
        work.upper_scores,
        work.upper_lse,
        work.upper_lse.shape[1],
        work.dense_lse,
        inputs.thresholds[0],
        s.num_upper,
        layer.centroids,
        layer.offsets,
        s.num_clusters,
        work.candidates,
        work.centroid_scores,
        work.centroid_lse,
        work.read_counts[1],
        NUM_HEADS=s.num_heads,
        KV_HEADS=s.kv_heads,
        GROUP=s.group,
        GROUP_PAD=s.group_pad,
        BATCH=s.batch,
        BATCH_PAD=power_of_two(s.batch),
        DENSE_SPLITS=work.dense_splits,
        ROWS=max(MIN_QUERY_ROWS, s.rows),
        D=s.head_dim,
        SPAN=t.child_span,
        BLOCK=t.child_block,
        STAGES=t.child_stages,
        SOFTCAP=inputs.scoring.softcap,
        BY_MAXIMUM=inputs.scoring.by_maximum,
        **padded_splits(work, work.upper_lse),
        num_warps=t.child_warps,
        **launch_options(t.overlap),
    )
