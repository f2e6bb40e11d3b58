"""`accumulate_rows_mass` in Triton: one launch over anchors and the listed tokens of all groups."""

import triton
import triton.language as tl

from engine.kernels.batch.inputs import BatchInputs
from engine.kernels.batch.triton.helpers import (
    ANCHOR_TILES,
    FIRST_ROW,
    GROUP_DOCUMENT,
    GROUP_ROWS,
    GROUP_TOKENS_BEGIN,
    MASS,
    NUM_ANCHORS,
    NUM_CLUSTERS,
    NUM_GROUPS,
    NUM_KEYS,
    NUM_ROWS,
    PAGE,
    POSITIONS,
    READS_ALL,
    ROW_DOCUMENT,
    ROW_TOKENS_BEGIN,
    SEGMENTS_BEGIN,
    load_listed,
    load_number,
    load_pointer,
    load_record,
)
from engine.kernels.batch.workspace import BatchWorkspace
from engine.kernels.shared.sizes import power_of_two

BLOCK = 256  # tokens of a tile


@triton.jit
def _add_row(
    row,
    head,
    place,
    seen,
    position,
    num_tokens,
    rows,
    lse,
    token_scores,
    ROWS: tl.constexpr,
    NUM_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
):
    """Add one row's squared weights on the tokens [BLOCK] that are `seen` to its mass.

    place: the tokens' places among the document's keys. position: their places in the document.
    """
    member = tl.arange(0, GROUP_PAD)
    heads = head * GROUP + member
    scores = token_scores + tl.load(rows + ROW_TOKENS_BEGIN * ROWS + row) * NUM_HEADS
    row_lse = tl.load(lse + row * NUM_HEADS + heads, mask=member < GROUP, other=float("inf"))
    score = tl.load(
        scores + (heads * num_tokens)[:, None] + place[None, :],
        mask=(member < GROUP)[:, None] & seen[None, :],
        other=0.0,
    )
    weights = tl.exp(score - row_lse[:, None])  # rows beyond the group: exp(-inf)
    squares = tl.sum(weights * weights, 0)  # [BLOCK]
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
    segment_masks,
    token_masks,
    num_segments,
    log_weights,
    log_weights_stride,
    token_scores,
    lse,
    ROWS: tl.constexpr,
    NUM_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    QUESTIONS: tl.constexpr,
    PAIRS_PAD: tl.constexpr,
    SEGMENT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Take every so many tile of listed tokens, then of anchors, of heads that count.

    A tile of a pair, which is a group and a KV head, has BLOCK // SEGMENT segments.
    log_weights: of the layer's heads in slot 0; those of -inf count nothing.
    """
    STEP: tl.constexpr = BLOCK // SEGMENT
    pairs, lane = tl.arange(0, PAIRS_PAD), tl.arange(0, BLOCK)
    num_pairs = load_number(header, NUM_GROUPS) * retrieval
    listed = load_listed(num_segments, num_pairs, PAIRS_PAD)
    tiles = tl.cdiv(tl.abs(listed), STEP)
    ends = tl.cumsum(tiles, 0)
    for item in range(tl.program_id(0), tl.sum(tiles, 0), tl.num_programs(0)):
        pair = tl.sum((ends <= item).to(tl.int32), 0)
        tile = item - tl.sum(tl.where(pairs == pair, ends - tiles, 0), 0)
        own = tl.sum(tl.where(pairs == pair, listed, 0), 0)
        is_whole = own < 0
        group, head = pair // retrieval, pair % retrieval
        first_row = load_number(groups, FIRST_ROW * ROWS + group)
        num_rows = load_number(groups, GROUP_ROWS * ROWS + group)
        reads_all = load_number(groups, READS_ALL * ROWS + group) != 0
        document = tl.load(groups + GROUP_DOCUMENT * ROWS + group)
        log_weight = tl.load(log_weights + document * log_weights_stride + head)
        num_own = tl.where(log_weight > float("-inf"), tl.abs(own), 0)
        record = load_record(documents, document, document_stride)
        num_anchors, num_keys = load_number(record, NUM_ANCHORS), load_number(record, NUM_KEYS)
        capacity = num_keys // SEGMENT + load_number(record, NUM_CLUSTERS)
        num_tokens = num_anchors + num_keys
        positions = load_pointer(record, POSITIONS, segments) + head * num_tokens
        index = tile * STEP + lane // SEGMENT  # [BLOCK]
        exists = index < num_own
        at = load_number(groups, SEGMENTS_BEGIN * ROWS + group) * retrieval + head * capacity
        segment = tl.load(segments + at + index, mask=exists & (is_whole == 0), other=0)
        segment = tl.where(is_whole & exists, index * (SEGMENT * 32) + SEGMENT, segment)
        token = (segment >> 5) + lane % SEGMENT
        seen = (lane % SEGMENT < (segment & 31)) & (token < num_keys)
        position = tl.load(positions + num_anchors + token, mask=seen, other=0)
        if QUESTIONS == 1:
            _add_row(
                first_row, head, num_anchors + token, seen, position, num_tokens, rows, lse,
                token_scores, ROWS, NUM_HEADS, GROUP, GROUP_PAD,
            )  # fmt: skip
        else:
            token_at = load_number(groups, GROUP_TOKENS_BEGIN * ROWS + group) * retrieval
            token_at += head * num_keys
            masked = reads_all == 0
            of_segments = tl.load(
                segment_masks + at + index, mask=exists & masked & (is_whole == 0), other=-1
            )
            of_tokens = tl.load(token_masks + token_at + token, mask=seen & masked & is_whole,
                                other=-1)  # fmt: skip
            mask = of_segments & of_tokens
            for place in range(0, num_rows):
                _add_row(
                    first_row + place, head, num_anchors + token, seen & ((mask >> place) & 1 != 0),
                    position, num_tokens, rows, lse, token_scores, ROWS, NUM_HEADS, GROUP,
                    GROUP_PAD,
                )  # fmt: skip
    anchor_tiles = load_number(header, ANCHOR_TILES)
    items = load_number(header, NUM_ROWS) * retrieval * anchor_tiles
    anchor = tl.arange(0, PAGE)
    for item in range(tl.program_id(0), items, tl.num_programs(0)):
        tile, pair = item % anchor_tiles, item // anchor_tiles
        row, head = pair // retrieval, pair % retrieval
        document = tl.load(rows + ROW_DOCUMENT * ROWS + row)
        log_weight = tl.load(log_weights + document * log_weights_stride + head)
        record = load_record(documents, document, document_stride)
        num_anchors = load_number(record, NUM_ANCHORS)
        num_tokens = num_anchors + load_number(record, NUM_KEYS)
        positions = load_pointer(record, POSITIONS, segments) + head * num_tokens
        place = tile * PAGE + anchor
        seen = place < tl.where(log_weight > float("-inf"), num_anchors, 0)
        position = tl.load(positions + place, mask=seen, other=0)
        _add_row(
            row, head, place, seen, position, num_tokens, rows, lse, token_scores, ROWS, NUM_HEADS,
            GROUP, GROUP_PAD,
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
        work.segment_masks,
        work.token_masks,
        work.num_segments,
        inputs.documents.log_weights[0, inputs.layer],
        inputs.documents.log_weights.stride(0),
        work.token_scores,
        inputs.weighted_lse(work.lse),
        ROWS=s.rows,
        NUM_HEADS=s.num_heads,
        GROUP=s.group,
        GROUP_PAD=s.group_pad,
        QUESTIONS=s.group_rows,
        PAIRS_PAD=power_of_two(s.rows * inputs.retrieval),
        SEGMENT=t.segment_size,
        BLOCK=BLOCK,
        num_warps=4,
    )
