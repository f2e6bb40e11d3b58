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
    mask,
    bit,
    row_scores,
    row_begin,
    keeps_scores,
    scale,
    D: tl.constexpr,
    SOFTCAP: tl.constexpr,
):
    """Score the tokens [BLOCK] that are `seen`; returns the scores to base e and to base 2, and
    which of them rows see [TILE_ROWS, BLOCK], and the values [BLOCK, D].

    Keys are loaded without waiting for masks. mask: [BLOCK], which rows of the group see each
    token. bit: [TILE_ROWS], of each row in the masks; 0 for padding.
    """
    offsets = token[:, None] * D + tile_columns(D)[None, :]  # [BLOCK, WIDTH]
    inside = mask_columns(seen[:, None], D)
    k = tl.load(keys + offsets, mask=inside, other=0.0)
    v = tl.load(values + offsets, mask=inside, other=0.0)
    products = tl.dot(q, tl.trans(k), input_precision="ieee")  # [TILE_ROWS, BLOCK]
    scores = apply_softcap(products * scale, SOFTCAP)
    scores_2 = products * (scale * LOG2_E) if SOFTCAP is None else scores * LOG2_E
    visible = (mask[None, :] & bit[:, None]) != 0
    if keeps_scores:
        tl.store(row_scores + (row_begin[:, None] + token[None, :]), scores, mask=visible)
    return scores, scores_2, visible, v


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
    row_scores,
    row_begin,
    keeps_scores,
    scale,
    top,
    mass,
    total,
    seen_by,
    D: tl.constexpr,
    SOFTCAP: tl.constexpr,
    SEGMENT: tl.constexpr,
    BLOCK: tl.constexpr,
    QUESTIONS: tl.constexpr,
    STAGES: tl.constexpr,
    IS_WHOLE: tl.constexpr,
    FIXED_MAXIMUM: tl.constexpr,
):
    """Attend to the segments from start to stop; returns the new top, mass, total and seen_by.

    segments, masks: of the list; where the whole head is read (IS_WHOLE), its segments follow each
    other, and masks are of its tokens. seen_by: [BLOCK], which rows have seen any token.
    """
    lane, top_2 = tl.arange(0, BLOCK), top * LOG2_E
    segment = tl.zeros([BLOCK], tl.int32)
    if not IS_WHOLE:
        segment = _load_segments(segments, start, stop, SEGMENT, BLOCK)
    last = tl.minimum(stop * SEGMENT, num_keys)
    for step in tl.range(start, stop, BLOCK // SEGMENT, num_stages=STAGES):
        if IS_WHOLE:
            token = step * SEGMENT + lane
            seen, at = token < last, token
        else:
            token = (segment >> 5) + lane % SEGMENT
            seen, at = lane % SEGMENT < (segment & 31), step + lane // SEGMENT
        mask = tl.full([BLOCK], -1, tl.int32)
        if QUESTIONS > 1:
            mask = tl.load(masks + at, mask=seen & is_masked, other=-1)
        mask = tl.where(seen, mask, 0)
        scores, scores_2, visible, v = _score_tile(
            q, keys, values, token, seen, mask, bit, row_scores, row_begin, keeps_scores, scale, D,
            SOFTCAP,
        )  # fmt: skip
        if FIXED_MAXIMUM:
            weights = tl.exp2(scores_2 - top_2[:, None])
            weights = tl.where(visible, weights, 0.0)
            mass += weights
            total = tl.dot(weights.to(v.dtype), v, total, input_precision="ieee")
            seen_by |= mask
        else:
            scores = tl.where(visible, scores, float("-inf"))
            top, mass, total = update_softmax_by_lane(scores, v, top, mass, total)
        if not IS_WHOLE:  # one step ahead, so that loads of keys never wait for their addresses
            segment = _load_segments(segments, step + BLOCK // SEGMENT, stop, SEGMENT, BLOCK)
    return top, mass, total, seen_by


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
    lookup_lse,
    log_weights,
    log_weights_stride,
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
            # The scores of a group's rows lie one behind the other, as they ask about one document.
            scores_begin = tl.load(rows + ROW_TOKENS_BEGIN * ROWS + first_row) * NUM_HEADS
            row_scores = token_scores + scores_begin + num_anchors
            row_begin = (place * NUM_HEADS + head * GROUP + member) * (num_anchors + num_keys)
            keeps_scores = False
            if KEEP_SCORES:  # of heads that count as evidence
                log_weight = tl.load(log_weights + document * log_weights_stride + head)
                keeps_scores = log_weight > float("-inf")
            q = load_group_queries(
                query, head, first_row, num_rows, NUM_HEADS, GROUP, GROUP_PAD, TILE_ROWS, D
            )
            top = tl.full([TILE_ROWS], float("-inf"), tl.float32)
            mass = tl.zeros([TILE_ROWS, BLOCK], tl.float32)
            total = tl.zeros([TILE_ROWS, cols.shape[0]], tl.float32)
            own_segments = segments + list_begin
            own_masks, whole_masks, is_masked = segment_masks, token_masks, False
            if QUESTIONS > 1:
                is_masked = load_number(groups, READS_ALL * ROWS + group) == 0
                token_begin = load_number(groups, GROUP_TOKENS_BEGIN * ROWS + group) * retrieval
                own_masks += list_begin
                whole_masks += token_begin + head * num_keys
            top = tl.full([TILE_ROWS], float("-inf"), tl.float32)
            if FIXED_MAXIMUM:
                top = tl.load(
                    lookup_lse + (first_row + place) * NUM_HEADS + head * GROUP + member,
                    mask=is_row,
                    other=0.0,
                )
            mass = tl.zeros([TILE_ROWS, BLOCK], tl.float32)
            total = tl.zeros([TILE_ROWS, cols.shape[0]], tl.float32)
            seen_by = tl.zeros([BLOCK], tl.int32)
            # Either loop is empty; each knows where its tokens are without asking.
            top, mass, total, seen_by = _attend_share(
                start, tl.where(is_whole, start, stop), own_segments, own_masks, is_masked,
                num_keys, q, keys, values, bit, row_scores, row_begin, keeps_scores, scale, top,
                mass, total, seen_by, D, SOFTCAP, SEGMENT, BLOCK, QUESTIONS, STAGES, False,
                FIXED_MAXIMUM,
            )  # fmt: skip
            top, mass, total, seen_by = _attend_share(
                tl.where(is_whole, start, stop), stop, own_segments, whole_masks, is_masked,
                num_keys, q, keys, values, bit, row_scores, row_begin, keeps_scores, scale, top,
                mass, total, seen_by, D, SOFTCAP, SEGMENT, BLOCK, QUESTIONS, STAGES, True,
                FIXED_MAXIMUM,
            )  # fmt: skip
            if FIXED_MAXIMUM:
                sums = tl.sum(mass, 1)  # [TILE_ROWS]
                has_seen = tl.max(((seen_by[None, :] & bit[:, None]) != 0).to(tl.int32), 1)
                fits = (sums > LEAST_SUM) & (sums < LARGEST_SUM)
                if tl.max(tl.where(fits, 0, has_seen), 0) > 0:
                    top = tl.full([TILE_ROWS], float("-inf"), tl.float32)
                    mass = tl.zeros([TILE_ROWS, BLOCK], tl.float32)
                    total = tl.zeros([TILE_ROWS, cols.shape[0]], tl.float32)
                    top, mass, total, seen_by = _attend_share(
                        start, tl.where(is_whole, start, stop), own_segments, own_masks, is_masked,
                        num_keys, q, keys, values, bit, row_scores, row_begin, keeps_scores, scale,
                        top, mass, total, seen_by, D, SOFTCAP, SEGMENT, BLOCK, QUESTIONS, 1, False,
                        False,
                    )  # fmt: skip
                    top, mass, total, seen_by = _attend_share(
                        tl.where(is_whole, start, stop), stop, own_segments, whole_masks, is_masked,
                        num_keys, q, keys, values, bit, row_scores, row_begin, keeps_scores, scale,
                        top, mass, total, seen_by, D, SOFTCAP, SEGMENT, BLOCK, QUESTIONS, 1, True,
                        False,
                    )  # fmt: skip
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
        work.lookup_lse,
        inputs.documents.log_weights[0, inputs.layer],
        inputs.documents.log_weights.stride(0),
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
        FIXED_MAXIMUM=inputs.query.dtype != torch.float16,  # whose weights end at 65504
        EARLY_COMBINE=t.early_combine,
        num_warps=t.attend_warps,
        **({} if t.attend_registers is None else {"maxnreg": t.attend_registers}),
        **launch_options(t.overlap),
    )
