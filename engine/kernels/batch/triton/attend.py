"""The third launch of `attend_rows`: every program attends to an equal share of the segments."""

import torch
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
    SEGMENTS_BEGIN,
    VALUES,
    find_slots,
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
from engine.kernels.shared.triton.online_softmax import (
    LOG2_E,
    apply_softcap,
    softmax_lse,
    softmax_output,
)
from engine.kernels.shared.triton.overlap import release_next_launch, wait_for_previous_launch

# Sums of exponentials between these have lost nothing in fp32, and outputs fit, too.
LEAST_SUM, LARGEST_SUM = tl.constexpr(1e-30), tl.constexpr(1e30)


@triton.jit
def _load_segments(segments, step, stop, SEGMENT: tl.constexpr, BLOCK: tl.constexpr):
    """Load the segments of a tile's lanes [BLOCK]; 0, which has no token, past the last one."""
    index = step + tl.arange(0, BLOCK) // SEGMENT
    return tl.load(segments + index, mask=index < stop, other=0)


@triton.jit
def _score_tile(
    q,
    keys,
    values,
    token,
    seen,
    visible,
    reference,
    slot_scores,
    slots,
    scale,
    D: tl.constexpr,
    SOFTCAP: tl.constexpr,
    KEEP_SCORES: tl.constexpr,
):
    """Score the tokens [BLOCK] that are `seen`; returns scores to base 2, relative to `reference`
    [TILE_ROWS] and -inf where a row does not see a token, [TILE_ROWS, BLOCK], and the values.

    slot_scores: [TILE_ROWS, BLOCK], pointers at which the scores are left for evidence; slots:
    which of them, broadcast.
    """
    offsets = token[:, None] * D + tile_columns(D)[None, :]  # [BLOCK, WIDTH]
    inside = mask_columns(seen[:, None], D)
    k = tl.load(keys + offsets, mask=inside, other=0.0)
    v = tl.load(values + offsets, mask=inside, other=0.0)
    products = tl.dot(q, tl.trans(k), input_precision="ieee")  # [TILE_ROWS, BLOCK]
    if SOFTCAP is None:
        scores = products * (scale * LOG2_E) - reference[:, None]
    else:
        scores = apply_softcap(products * scale, SOFTCAP) * LOG2_E - reference[:, None]
    scores = tl.where(visible, scores, float("-inf"))
    if KEEP_SCORES:
        tl.store(slot_scores, scores.to(tl.float16), mask=slots)
    return scores, v


@triton.jit
def _attend_share(
    start,
    stop,
    segments,
    masks,
    is_masked,
    num_keys,
    q,
    keys,
    values,
    bit,
    reference,
    listed_scores,
    slots_stop,
    scale,
    top,
    mass,
    total,
    seen_by,
    OUT_ROWS: tl.constexpr,
    TILE_ROWS: tl.constexpr,
    D: tl.constexpr,
    SOFTCAP: tl.constexpr,
    SEGMENT: tl.constexpr,
    BLOCK: tl.constexpr,
    QUESTIONS: tl.constexpr,
    KEEP_SCORES: tl.constexpr,
    STAGES: tl.constexpr,
    IS_WHOLE: tl.constexpr,
    FIXED_MAXIMUM: tl.constexpr,
):
    """Attend to the segments from start to stop; returns the new top, mass, total and seen_by.

    segments, masks: of the list; where the whole head is read (IS_WHOLE), its segments follow each
    other, and masks are of its tokens. bit: [TILE_ROWS], of each row in the masks; 0 for padding.
    reference: [TILE_ROWS], what scores are relative to, to base 2. slots_stop: from which place on
    no scores are left. seen_by: [BLOCK], which rows have seen any token.
    """
    lane, row = tl.arange(0, BLOCK), tl.arange(0, TILE_ROWS)
    segment = tl.zeros([BLOCK], tl.int32)
    if not IS_WHOLE:
        segment = _load_segments(segments, start, stop, SEGMENT, BLOCK)
    last = tl.minimum(stop * SEGMENT, num_keys)
    for step in tl.range(start, stop, BLOCK // SEGMENT, num_stages=STAGES):
        slot = step * SEGMENT + lane
        if IS_WHOLE:
            token = slot
            seen, at = token < last, token
        else:
            token = (segment >> 5) + lane % SEGMENT
            seen, at = lane % SEGMENT < (segment & 31), step + lane // SEGMENT
        mask = tl.full([BLOCK], -1, tl.int32)
        if QUESTIONS > 1:  # keys are loaded without waiting for it
            mask = tl.load(masks + at, mask=seen & is_masked, other=-1)
        mask = tl.where(seen, mask, 0)
        scores, v = _score_tile(
            q,
            keys,
            values,
            token,
            seen,
            (mask[None, :] & bit[:, None]) != 0,
            reference,
            listed_scores + (slot[None, :] * OUT_ROWS + row[:, None]),
            (slot < slots_stop)[None, :] & (row < OUT_ROWS)[:, None],
            scale,
            D,
            SOFTCAP,
            KEEP_SCORES,
        )
        if FIXED_MAXIMUM:
            weights = tl.exp2(scores)
            mass += weights
            total = tl.dot(weights.to(v.dtype), v, total, input_precision="ieee")
            seen_by |= mask
        else:
            top, mass, total = update_softmax_by_lane(scores / LOG2_E, v, top, mass, total)
        if not IS_WHOLE:  # one step ahead, so that loads of keys never wait for their addresses
            segment = _load_segments(segments, step + BLOCK // SEGMENT, stop, SEGMENT, BLOCK)
    return top, mass, total, seen_by


@triton.jit
def _attend_list_or_head(
    start,
    stop,
    is_whole,
    segments,
    segment_masks,
    token_masks,
    is_masked,
    num_keys,
    q,
    keys,
    values,
    bit,
    reference,
    listed_scores,
    slots_stop,
    scale,
    OUT_ROWS: tl.constexpr,
    TILE_ROWS: tl.constexpr,
    D: tl.constexpr,
    SOFTCAP: tl.constexpr,
    SEGMENT: tl.constexpr,
    BLOCK: tl.constexpr,
    QUESTIONS: tl.constexpr,
    KEEP_SCORES: tl.constexpr,
    STAGES: tl.constexpr,
    FIXED_MAXIMUM: tl.constexpr,
):
    """Attend to a share of a head, as listed or all of it; as `_attend_share`, from nothing.

    There is a loop for either, one of which is empty: they share their memory, where the branches
    of a condition would not.
    """
    top = tl.full([TILE_ROWS], float("-inf"), tl.float32)
    if FIXED_MAXIMUM:
        top = tl.zeros([TILE_ROWS], tl.float32)
    mass = tl.zeros([TILE_ROWS, BLOCK], tl.float32)
    total = tl.zeros([TILE_ROWS, tile_columns(D).shape[0]], tl.float32)
    seen_by = tl.zeros([BLOCK], tl.int32)
    whole_start = tl.where(is_whole, start, stop)
    top, mass, total, seen_by = _attend_share(
        start, whole_start, segments, segment_masks, is_masked, num_keys, q, keys, values, bit,
        reference, listed_scores, slots_stop, scale, top, mass, total, seen_by, OUT_ROWS, TILE_ROWS,
        D, SOFTCAP, SEGMENT, BLOCK, QUESTIONS, KEEP_SCORES, STAGES, False, FIXED_MAXIMUM,
    )  # fmt: skip
    return _attend_share(
        whole_start, stop, segments, token_masks, is_masked, num_keys, q, keys, values, bit,
        reference, listed_scores, slots_stop, scale, top, mass, total, seen_by, OUT_ROWS, TILE_ROWS,
        D, SOFTCAP, SEGMENT, BLOCK, QUESTIONS, KEEP_SCORES, STAGES, True, FIXED_MAXIMUM,
    )  # fmt: skip


@triton.jit
def attend_kernel(
    query,
    header,
    groups,
    documents,
    document_stride,
    retrieval,
    segments,
    segment_masks,
    token_masks,
    num_segments,
    lookup_lse,
    log_weights,
    log_weights_stride,
    listed_scores,
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
    WHOLE: tl.constexpr,
    FIXED_MAXIMUM: tl.constexpr,
    EARLY_COMBINE: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Attend to one share of the segments: program p writes its state of pair h to slot p + h.

    A pair is a group and a KV head. With FIXED_MAXIMUM exponentials are relative to the log-sum-exp
    that the lookup estimated, and nothing is rescaled; where a sum is too large or too small for
    that, the share is computed again with a running maximum.
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
    for pair in range(first_pair, last_pair):
        begin = tl.sum(tl.where(pairs == pair, ends - count, 0), 0)
        own = tl.sum(tl.where(pairs == pair, listed, 0), 0)
        is_whole = own < 0
        start, stop = tl.maximum(low - begin, 0), tl.minimum(high - begin, tl.abs(own))
        if start < stop:
            group, head = pair // retrieval, pair % retrieval
            first_row = load_number(groups, FIRST_ROW * ROWS + group)
            num_rows = load_number(groups, GROUP_ROWS * ROWS + group)
            document = tl.load(groups + GROUP_DOCUMENT * ROWS + group)
            record = load_record(documents, document, document_stride)
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
            bit = tl.where(is_row, 1 << place, 0)
            own_scores, slots_stop = listed_scores, 0
            if KEEP_SCORES:  # of heads that count as evidence
                slots_begin, num_slots = find_slots(
                    groups, group, head, retrieval, num_keys, capacity, ROWS, SEGMENT, WHOLE
                )
                own_scores += tl.cast(slots_begin, tl.int64) * OUT_ROWS
                log_weight = tl.load(log_weights + document * log_weights_stride + head)
                slots_stop = tl.minimum(stop * SEGMENT, num_slots)
                slots_stop = tl.where(log_weight > float("-inf"), slots_stop, 0)
            q = load_group_queries(
                query, head, first_row, num_rows, NUM_HEADS, GROUP, GROUP_PAD, TILE_ROWS, D
            )
            own_segments = segments + list_begin
            own_masks, whole_masks, is_masked = segment_masks, token_masks, False
            if QUESTIONS > 1:
                is_masked = load_number(groups, READS_ALL * ROWS + group) == 0
                token_begin = load_number(groups, GROUP_TOKENS_BEGIN * ROWS + group) * retrieval
                own_masks += list_begin
                whole_masks += token_begin + head * num_keys
            expected_lse = tl.load(
                lookup_lse + (first_row + place) * NUM_HEADS + head * GROUP + member,
                mask=is_row,
                other=0.0,
            )
            reference = expected_lse * LOG2_E
            top, mass, total, seen_by = _attend_list_or_head(
                start, stop, is_whole, own_segments, own_masks, whole_masks, is_masked, num_keys, q,
                keys, values, bit, reference, own_scores, slots_stop, scale, OUT_ROWS, TILE_ROWS, D,
                SOFTCAP, SEGMENT, BLOCK, QUESTIONS, KEEP_SCORES, STAGES, FIXED_MAXIMUM,
            )  # fmt: skip
            if FIXED_MAXIMUM:
                sums = tl.sum(mass, 1)  # [TILE_ROWS]
                has_seen = tl.max(((seen_by[None, :] & bit[:, None]) != 0).to(tl.int32), 1)
                fits = (sums > LEAST_SUM) & (sums < LARGEST_SUM)
                if tl.max(tl.where(fits, 0, has_seen), 0) > 0:
                    top, mass, total, seen_by = _attend_list_or_head(
                        start, stop, is_whole, own_segments, own_masks, whole_masks, is_masked,
                        num_keys, q, keys, values, bit, reference, own_scores, slots_stop, scale,
                        OUT_ROWS, TILE_ROWS, D, SOFTCAP, SEGMENT, BLOCK, QUESTIONS, KEEP_SCORES, 1,
                        False,
                    )  # fmt: skip
            mass = tl.sum(mass, 1)  # [TILE_ROWS]
            top += expected_lse
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
        documents[0, inputs.layer],
        documents.stride(0),
        inputs.retrieval,
        work.segments,
        work.segment_masks,
        work.token_masks,
        work.num_segments,
        work.lookup_lse,
        inputs.documents.log_weights[0, inputs.layer],
        inputs.documents.log_weights.stride(0),
        work.listed_scores,
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
        WHOLE=s.reads_whole,
        FIXED_MAXIMUM=inputs.query.dtype != torch.float16,  # whose weights end at 65504
        EARLY_COMBINE=t.early_combine,
        num_warps=t.attend_warps,
        **launch_options(t.overlap),
    )
