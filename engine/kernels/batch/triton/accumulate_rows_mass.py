"""`accumulate_rows_mass` in Triton: one launch over anchors and the listed tokens of all groups."""

import triton
import triton.language as tl

from engine.kernels.batch.inputs import BatchInputs
from engine.kernels.batch.triton.helpers import (
    ANCHOR_TILES,
    FIRST_ROW,
    GROUP_DOCUMENT,
    GROUP_ROWS,
    MASS,
    NUM_ANCHORS,
    NUM_CLUSTERS,
    NUM_GROUPS,
    NUM_KEYS,
    NUM_ROWS,
    PAGE,
    POSITIONS,
    ROW_ANCHORS_BEGIN,
    ROW_DOCUMENT,
    SEGMENTS_BEGIN,
    find_slots,
    load_listed,
    load_number,
    load_pointer,
    load_record,
)
from engine.kernels.batch.workspace import BatchWorkspace
from engine.kernels.shared.sizes import power_of_two
from engine.kernels.shared.triton.online_softmax import LOG2_E

SCORES = 4096  # scores of a tile of listed tokens


@triton.jit
def _add_listed(
    group,
    head,
    tile,
    num_segments,
    segments,
    record,
    groups,
    rows,
    log_weight,
    lookup_lse,
    lse,
    listed_scores,
    retrieval,
    ROWS: tl.constexpr,
    NUM_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    QUESTIONS: tl.constexpr,
    SEGMENT: tl.constexpr,
    BLOCK: tl.constexpr,
    WHOLE: tl.constexpr,
):
    """Add the squared weights of a group's rows on a tile of the tokens that it read of a head.

    num_segments: that are listed; negative where all of the head is read. log_weight: of the head.
    """
    first_row = load_number(groups, FIRST_ROW * ROWS + group)
    num_rows = load_number(groups, GROUP_ROWS * ROWS + group)
    num_anchors, num_keys = load_number(record, NUM_ANCHORS), load_number(record, NUM_KEYS)
    capacity = num_keys // SEGMENT + load_number(record, NUM_CLUSTERS)
    list_begin = load_number(groups, SEGMENTS_BEGIN * ROWS + group) * retrieval + head * capacity
    slot = tile * BLOCK + tl.arange(0, BLOCK)
    is_slot = slot < tl.abs(num_segments) * SEGMENT
    is_listed = is_slot & (num_segments > 0)
    segment = tl.load(segments + list_begin + slot // SEGMENT, mask=is_listed, other=0)
    token = tl.where(num_segments > 0, (segment >> 5) + slot % SEGMENT, slot)
    seen = tl.where(num_segments > 0, slot % SEGMENT < (segment & 31), slot < num_keys) & is_slot
    question, member = tl.arange(0, QUESTIONS), tl.arange(0, GROUP_PAD)
    heads = (first_row + question)[:, None] * NUM_HEADS + (head * GROUP + member)[None, :]
    is_row = (question < num_rows)[:, None] & (member < GROUP)[None, :]
    expected = tl.load(lookup_lse + heads, mask=is_row, other=0.0)
    found = tl.load(lse + heads, mask=is_row, other=float("inf"))
    # Half of the head's, as weights are squared; -inf for padding. [QUESTIONS, GROUP_PAD]
    shift = (expected - found + 0.5 * log_weight) * LOG2_E
    slots_begin, num_slots = find_slots(
        groups, group, head, retrieval, num_keys, capacity, ROWS, SEGMENT, WHOLE
    )
    seen = seen & (slot < num_slots)
    slot_scores = listed_scores + tl.cast(slots_begin, tl.int64) * (QUESTIONS * GROUP_PAD)
    place = question[:, None] * GROUP_PAD + member[None, :]
    score = tl.load(
        slot_scores + (slot[:, None, None] * (QUESTIONS * GROUP_PAD) + place[None, :, :]),
        mask=seen[:, None, None] & is_row[None, :, :],
        other=float("-inf"),
    )
    weights = tl.exp2(score.to(tl.float32) + shift[None, :, :])
    squares = tl.sum(weights * weights, 2)  # [BLOCK, QUESTIONS]
    positions = load_pointer(record, POSITIONS, segments) + head * (num_anchors + num_keys)
    position = tl.load(positions + num_anchors + token, mask=seen, other=0)
    mass = tl.load(rows + MASS * ROWS + first_row + question, mask=question < num_rows, other=0)
    mass = mass.to(lse.dtype)  # [QUESTIONS], pointers
    tl.atomic_add(mass[None, :] + position[:, None], squares, mask=squares > 0.0, sem="relaxed")


@triton.jit
def _add_anchors(
    row,
    head,
    tile,
    record,
    num_anchors,
    segments,
    rows,
    log_weight,
    lse,
    anchor_scores,
    ROWS: tl.constexpr,
    NUM_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
):
    """Add a row's squared weights on a tile of a head's anchors."""
    member, place = tl.arange(0, GROUP_PAD), tile * PAGE + tl.arange(0, PAGE)
    heads, seen = head * GROUP + member, place < num_anchors
    scores = anchor_scores + tl.load(rows + ROW_ANCHORS_BEGIN * ROWS + row) * NUM_HEADS
    row_lse = tl.load(lse + row * NUM_HEADS + heads, mask=member < GROUP, other=float("inf"))
    score = tl.load(
        scores + (heads * num_anchors)[:, None] + place[None, :],
        mask=(member < GROUP)[:, None] & seen[None, :],
        other=0.0,
    )
    shift = 0.5 * log_weight - row_lse  # [GROUP_PAD]; -inf for heads beyond the group
    weights = tl.exp(score + shift[:, None])
    squares = tl.sum(weights * weights, 0)  # [PAGE]
    num_tokens = load_number(record, NUM_ANCHORS) + load_number(record, NUM_KEYS)
    positions = load_pointer(record, POSITIONS, segments) + head * num_tokens
    position = tl.load(positions + place, mask=seen, other=0)
    mass = tl.load(rows + MASS * ROWS + row).to(lse.dtype)
    tl.atomic_add(mass + position, squares, mask=seen, sem="relaxed")


@triton.jit
def accumulate_rows_mass_kernel(
    header,
    groups,
    rows,
    documents,
    document_stride,
    retrieval,
    segments,
    num_segments,
    log_weights,
    log_weights_stride,
    lookup_lse,
    listed_scores,
    anchor_scores,
    lse,
    ROWS: tl.constexpr,
    NUM_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    QUESTIONS: tl.constexpr,
    PAIRS_PAD: tl.constexpr,
    SEGMENT: tl.constexpr,
    BLOCK: tl.constexpr,
    WHOLE: tl.constexpr,
):
    """Take every so many tile of listed tokens, then of anchors, of heads that count.

    A pair is a group and a KV head. log_weights: of the layer's heads in slot 0; those of -inf
    count nothing.
    """
    pairs = tl.arange(0, PAIRS_PAD)
    num_pairs = load_number(header, NUM_GROUPS) * retrieval
    document = tl.load(
        groups + GROUP_DOCUMENT * ROWS + pairs // retrieval, mask=pairs < num_pairs, other=0
    )
    weights = tl.load(
        log_weights + document * log_weights_stride + pairs % retrieval,
        mask=pairs < num_pairs,
        other=float("-inf"),
    )
    listed = load_listed(num_segments, num_pairs, PAIRS_PAD)
    listed = tl.where(weights > float("-inf"), listed, 0)
    tiles = tl.cdiv(tl.abs(listed) * SEGMENT, BLOCK)
    ends = tl.cumsum(tiles, 0)
    for item in range(tl.program_id(0), tl.sum(tiles, 0), tl.num_programs(0)):
        pair = tl.sum((ends <= item).to(tl.int32), 0)
        tile = item - tl.sum(tl.where(pairs == pair, ends - tiles, 0), 0)
        own = tl.sum(tl.where(pairs == pair, listed, 0), 0)
        log_weight = tl.sum(tl.where(pairs == pair, weights, 0.0), 0)
        group, head = pair // retrieval, pair % retrieval
        record = load_record(
            documents, tl.load(groups + GROUP_DOCUMENT * ROWS + group), document_stride
        )
        _add_listed(
            group, head, tile, own, segments, record, groups, rows, log_weight, lookup_lse, lse,
            listed_scores, retrieval, ROWS, NUM_HEADS, GROUP, GROUP_PAD, QUESTIONS, SEGMENT, BLOCK,
            WHOLE,
        )  # fmt: skip
    anchor_tiles = load_number(header, ANCHOR_TILES)
    items = load_number(header, NUM_ROWS) * retrieval * anchor_tiles
    for item in range(tl.program_id(0), items, tl.num_programs(0)):
        tile, pair = item % anchor_tiles, item // anchor_tiles
        row, head = pair // retrieval, pair % retrieval
        slot = tl.load(rows + ROW_DOCUMENT * ROWS + row)
        record = load_record(documents, slot, document_stride)
        log_weight = tl.load(log_weights + slot * log_weights_stride + head)
        num_anchors = load_number(record, NUM_ANCHORS)
        if log_weight > float("-inf"):
            _add_anchors(
                row, head, tile, record, num_anchors, segments, rows, log_weight, lse,
                anchor_scores, ROWS, NUM_HEADS, GROUP, GROUP_PAD,
            )  # fmt: skip


def accumulate_rows_mass_triton(inputs: BatchInputs, work: BatchWorkspace) -> None:
    """Launch `accumulate_rows_mass` in Triton.

    Args: as `accumulate_rows_mass`; nothing is checked.
    """
    s, t, tables = work.sizes, work.tuning, inputs.tables
    documents = inputs.documents.records
    accumulate_rows_mass_kernel[(t.mass_programs,)](
        tables.header,
        tables.groups,
        tables.rows,
        documents[0, inputs.layer],
        documents.stride(0),
        inputs.retrieval,
        work.segments,
        work.num_segments,
        inputs.documents.log_weights[0, inputs.layer],
        inputs.documents.log_weights.stride(0),
        work.lookup_lse,
        work.listed_scores,
        work.anchor_scores,
        work.lse,
        ROWS=s.rows,
        NUM_HEADS=s.num_heads,
        GROUP=s.group,
        GROUP_PAD=s.group_pad,
        QUESTIONS=s.group_rows,
        PAIRS_PAD=power_of_two(s.rows * inputs.retrieval),
        SEGMENT=t.segment_size,
        BLOCK=max(16, SCORES // s.tile_rows),
        WHOLE=s.reads_whole,
        num_warps=4,
    )
