"""The third launch of `attend_rows`: every program attends to an equal share of the segments."""

import triton
import triton.language as tl

from engine.kernels.batch.inputs import BatchInputs
from engine.kernels.batch.triton.helpers import (
    FIRST_ROW,
    GROUP_DOCUMENT,
    GROUP_ROWS,
    GROUP_TOKENS_BEGIN,
    KEY_STRIDE,
    KEYS,
    NUM_ANCHORS,
    NUM_CLUSTERS,
    NUM_GROUPS,
    NUM_KEYS,
    READS_ALL,
    ROW_TOKENS_BEGIN,
    SEGMENTS_BEGIN,
    VALUES,
    load_group_queries,
    load_listed,
    load_number,
    load_pointer,
    load_record,
    load_width,
)
from engine.kernels.batch.workspace import BatchWorkspace
from engine.kernels.decode.triton.attend_runs import update_softmax_by_lane
from engine.kernels.decode.triton.helpers import split_segments
from engine.kernels.shared.overlap import launch_options
from engine.kernels.shared.sizes import power_of_two
from engine.kernels.shared.triton.columns import mask_columns, tile_columns
from engine.kernels.shared.triton.online_softmax import apply_softcap, softmax_lse, softmax_output
from engine.kernels.shared.triton.overlap import release_next_launch, wait_for_previous_launch


@triton.jit
def _attend_tile(
    q,
    keys,
    values,
    token,
    seen,
    mask,
    row_scores,
    row_begin,
    is_row,
    place,
    top,
    mass,
    total,
    scale,
    QUESTIONS: tl.constexpr,
    D: tl.constexpr,
    SOFTCAP: tl.constexpr,
    KEEP_SCORES: tl.constexpr,
):
    """Attend to the tokens [BLOCK] that are `seen`; returns the new top, mass and total.

    mask: [BLOCK], which rows of the group see each token; of no meaning for a single row.
    """
    offsets = token[:, None] * D + tile_columns(D)[None, :]  # [BLOCK, WIDTH]
    inside = mask_columns(seen[:, None], D)
    k = tl.load(keys + offsets, mask=inside, other=0.0)
    v = tl.load(values + offsets, mask=inside, other=0.0)
    products = tl.dot(q, tl.trans(k), input_precision="ieee")  # [TILE_ROWS, BLOCK]
    scores = apply_softcap(products * scale, SOFTCAP)
    visible = seen[None, :]
    if QUESTIONS > 1:
        visible = visible & ((mask[None, :] >> place[:, None]) & 1 != 0)
    if KEEP_SCORES:
        tl.store(
            row_scores + (row_begin[:, None] + token[None, :]),
            scores,
            mask=visible & is_row[:, None],
        )
    scores = tl.where(visible, scores, float("-inf"))
    return update_softmax_by_lane(scores, v, top, mass, total)


@triton.jit
def attend_kernel(
    query,
    header,
    groups,
    rows,
    documents,
    document_stride,
    retrieval,
    segments,
    segment_masks,
    token_masks,
    num_segments,
    token_scores,
    out,
    lse,
    scale,
    ROWS: tl.constexpr,
    NUM_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    QUESTIONS: tl.constexpr,
    OUT_ROWS: tl.constexpr,
    TILE_ROWS: tl.constexpr,
    PAIRS_PAD: tl.constexpr,
    D: tl.constexpr,
    SOFTCAP: tl.constexpr,
    SEGMENT: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
    KEEP_SCORES: tl.constexpr,
    EARLY_COMBINE: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Attend to one share of the segments: program p writes its state of pair h to slot p + h.

    A pair is a group and a KV head.
    """
    program = tl.program_id(0)
    pairs, row, cols = tl.arange(0, PAIRS_PAD), tl.arange(0, TILE_ROWS), tile_columns(D)
    STEP: tl.constexpr = BLOCK // SEGMENT  # segments of a tile
    place, member = row // GROUP_PAD, row % GROUP_PAD
    num_pairs = load_number(header, NUM_GROUPS) * retrieval
    wait_for_previous_launch(OVERLAP)
    release_next_launch(OVERLAP and EARLY_COMBINE)
    listed = load_listed(num_segments, num_pairs, PAIRS_PAD)  # [PAIRS_PAD]
    count = tl.abs(listed)
    ends, share = split_segments(count, tl.num_programs(0), STEP)
    low = program * share
    high = tl.minimum(low + share, tl.sum(count, 0))
    first_pair = tl.sum((ends <= low).to(tl.int32), 0)
    last_pair = tl.sum((ends - count < high).to(tl.int32), 0)
    lane = tl.arange(0, BLOCK)
    slot_of_lane, token_of_lane = lane // SEGMENT, lane % SEGMENT
    for pair in range(first_pair, last_pair):
        begin = tl.sum(tl.where(pairs == pair, ends - count, 0), 0)
        own = tl.sum(tl.where(pairs == pair, listed, 0), 0)
        is_whole = own < 0
        start, stop = tl.maximum(low - begin, 0), tl.minimum(high - begin, tl.abs(own))
        if start < stop:
            group, head = pair // retrieval, pair % retrieval
            first_row = load_number(groups, FIRST_ROW * ROWS + group)
            num_rows = load_number(groups, GROUP_ROWS * ROWS + group)
            record = load_record(
                documents, tl.load(groups + GROUP_DOCUMENT * ROWS + group), document_stride
            )
            num_anchors = load_number(record, NUM_ANCHORS)
            num_keys = load_number(record, NUM_KEYS)
            capacity = num_keys // SEGMENT + load_number(record, NUM_CLUSTERS)
            key_begin = head * load_width(record, KEY_STRIDE, 16) + num_anchors * D
            key_begin = tl.multiple_of(key_begin, 16)
            keys = load_pointer(record, KEYS, query) + key_begin
            values = load_pointer(record, VALUES, query) + key_begin
            list_begin = (
                load_number(groups, SEGMENTS_BEGIN * ROWS + group) * retrieval + head * capacity
            )
            is_row = (place < num_rows) & (member < GROUP)
            # The scores of a group's rows lie one behind the other, as they ask about one document.
            scores_begin = tl.load(rows + ROW_TOKENS_BEGIN * ROWS + first_row) * NUM_HEADS
            row_scores = token_scores + scores_begin + num_anchors
            row_begin = (place * NUM_HEADS + head * GROUP + member) * (num_anchors + num_keys)
            q = load_group_queries(
                query, head, first_row, num_rows, NUM_HEADS, GROUP, GROUP_PAD, TILE_ROWS, D
            )
            top = tl.full([TILE_ROWS], float("-inf"), tl.float32)
            mass = tl.zeros([TILE_ROWS, BLOCK], tl.float32)
            total = tl.zeros([TILE_ROWS, cols.shape[0]], tl.float32)
            # Where the whole head is read its segments follow each other, and each token has a
            # mask; else segments are listed, each with a mask. Two loops would take the shared
            # memory of both.
            last = tl.minimum(stop * SEGMENT, num_keys)
            listed_stop = tl.where(is_whole, 0, stop)  # nothing is listed there
            listed_segments = segments + list_begin
            mask = tl.full([BLOCK], -1, tl.int32)
            if QUESTIONS > 1:
                reads_all = load_number(groups, READS_ALL * ROWS + group) != 0
                token_begin = load_number(groups, GROUP_TOKENS_BEGIN * ROWS + group) * retrieval
                token_begin += head * num_keys
                masks = tl.where(is_whole, token_masks + token_begin, segment_masks + list_begin)
                mask_stop = tl.where(is_whole, last, stop)
                mask_stop = tl.where(reads_all, 0, mask_stop)
            index = start + slot_of_lane  # [BLOCK]
            segment = tl.load(listed_segments + index, mask=index < listed_stop, other=0)
            for step in tl.range(start, stop, STEP, num_stages=STAGES):
                index = step + slot_of_lane
                in_order = step * SEGMENT + lane
                if QUESTIONS > 1:
                    at = tl.where(is_whole, in_order, index)
                    mask = tl.load(masks + at, mask=at < mask_stop, other=-1)
                token = tl.where(is_whole, in_order, (segment >> 5) + token_of_lane)  # [BLOCK]
                seen = tl.where(is_whole, in_order < last, token_of_lane < (segment & 31))
                top, mass, total = _attend_tile(
                    q, keys, values, token, seen, mask, row_scores, row_begin, is_row, place,
                    top, mass, total, scale, QUESTIONS, D, SOFTCAP, KEEP_SCORES,
                )  # fmt: skip
                # One step ahead, so that loads of keys never wait for their addresses.
                index += STEP
                segment = tl.load(listed_segments + index, mask=index < listed_stop, other=0)
            mass = tl.sum(mass, 1)  # [TILE_ROWS]
            slot = program + pair
            is_out = row < OUT_ROWS
            tl.store(lse + slot * OUT_ROWS + row, softmax_lse(top, mass), mask=is_out)
            tl.store(
                out + (slot * OUT_ROWS + row)[:, None] * D + cols[None, :],
                softmax_output(total, mass),
                mask=mask_columns(is_out[:, None], D),
            )


def attend_triton(inputs: BatchInputs, work: BatchWorkspace) -> None:
    """Launch the third kernel of `attend_rows`.

    Args: as `attend_rows`, after `select_triton`; `split_out` and `split_lse` are written where a
        share has segments of a pair, and `token_scores` of what each row attends to.
    """
    s, t, tables, scoring = work.sizes, work.tuning, inputs.tables, inputs.scoring
    documents = inputs.documents.records
    attend_kernel[(t.attend_programs,)](
        inputs.query,
        tables.header,
        tables.groups,
        tables.rows,
        documents[0, inputs.layer],
        documents.stride(0),
        inputs.retrieval,
        work.segments,
        work.segment_masks,
        work.token_masks,
        work.num_segments,
        work.token_scores,
        work.split_out,
        work.split_lse,
        scoring.scale,
        ROWS=s.rows,
        NUM_HEADS=s.num_heads,
        GROUP=s.group,
        GROUP_PAD=s.group_pad,
        QUESTIONS=s.group_rows,
        OUT_ROWS=s.tile_rows,
        TILE_ROWS=max(16, s.tile_rows),
        PAIRS_PAD=power_of_two(s.rows * inputs.retrieval),
        D=s.head_dim,
        SOFTCAP=scoring.softcap,
        SEGMENT=t.segment_size,
        BLOCK=t.attend_block,
        STAGES=t.attend_stages,
        KEEP_SCORES=t.keep_scores,
        EARLY_COMBINE=t.early_combine,
        num_warps=t.attend_warps,
        **({} if t.attend_registers is None else {"maxnreg": t.attend_registers}),
        **launch_options(t.overlap),
    )
