"""Triton functions that find rows, groups and documents in tables, and load queries of a group."""

import triton
import triton.language as tl

from engine.kernels.batch.sizes import PAGE as PAGE_TOKENS
from engine.kernels.batch.tables import Group, Header, Record, RowField
from engine.kernels.shared.triton.columns import mask_columns, tile_columns

PAGE = tl.constexpr(PAGE_TOKENS)
RECORD_SIZE = tl.constexpr(int(Record.SIZE))
KEYS = tl.constexpr(int(Record.KEYS))
VALUES = tl.constexpr(int(Record.VALUES))
CENTROIDS = tl.constexpr(int(Record.CENTROIDS))
OFFSETS = tl.constexpr(int(Record.OFFSETS))
POSITIONS = tl.constexpr(int(Record.POSITIONS))
STREAMING_KEYS = tl.constexpr(int(Record.STREAMING_KEYS))
STREAMING_VALUES = tl.constexpr(int(Record.STREAMING_VALUES))
LOG_WEIGHTS = tl.constexpr(int(Record.LOG_WEIGHTS))
KEY_STRIDE = tl.constexpr(int(Record.KEY_STRIDE))
NUM_ANCHORS = tl.constexpr(int(Record.NUM_ANCHORS))
NUM_KEYS = tl.constexpr(int(Record.NUM_KEYS))
NUM_CLUSTERS = tl.constexpr(int(Record.NUM_CLUSTERS))
NUM_STREAMING = tl.constexpr(int(Record.NUM_STREAMING))
NUM_ROWS = tl.constexpr(int(Header.NUM_ROWS))
NUM_GROUPS = tl.constexpr(int(Header.NUM_GROUPS))
NUM_SPLITS = tl.constexpr(int(Header.NUM_SPLITS))
NUM_CHUNKS = tl.constexpr(int(Header.NUM_CHUNKS))
ANCHOR_TILES = tl.constexpr(int(Header.ANCHOR_TILES))
DENSE_DOCUMENT_SPLITS = tl.constexpr(int(Header.DENSE_DOCUMENT_SPLITS - Header.DENSE))
DENSE_OWN_SPLITS = tl.constexpr(int(Header.DENSE_OWN_SPLITS - Header.DENSE))
GROUP_DOCUMENT = tl.constexpr(int(Group.DOCUMENT))
FIRST_ROW = tl.constexpr(int(Group.FIRST_ROW))
GROUP_ROWS = tl.constexpr(int(Group.NUM_ROWS))
READS_ALL = tl.constexpr(int(Group.READS_ALL))
SPLITS_END = tl.constexpr(int(Group.SPLITS_END))
CHUNKS_END = tl.constexpr(int(Group.CHUNKS_END))
CLUSTERS_BEGIN = tl.constexpr(int(Group.CLUSTERS_BEGIN))
SEGMENTS_BEGIN = tl.constexpr(int(Group.SEGMENTS_BEGIN))
SLOTS_BEGIN = tl.constexpr(int(Group.SLOTS_BEGIN))
GROUP_TOKENS_BEGIN = tl.constexpr(int(Group.TOKENS_BEGIN))
LENGTH = tl.constexpr(int(RowField.LENGTH))
ROW_GROUP = tl.constexpr(int(RowField.GROUP))
ROW_DOCUMENT = tl.constexpr(int(RowField.DOCUMENT))
THRESHOLD = tl.constexpr(int(RowField.THRESHOLD))
MASS = tl.constexpr(int(RowField.MASS))
ROW_ANCHORS_BEGIN = tl.constexpr(int(RowField.ANCHORS_BEGIN))


@triton.jit
def load_number(table, index):
    """Load a number of a table that fits 32 bits."""
    return tl.load(table + index).to(tl.int32)


@triton.jit
def load_record(documents, document, document_stride):
    """Return a pointer to the record of a document's layer; `documents` is slot 0's."""
    return documents + document * document_stride


@triton.jit
def load_pointer(record, field, like):
    """Load an address of a record as a pointer of the type of `like`; it is divisible by 16."""
    pointer = tl.load(record + field).to(like.dtype)
    return tl.multiple_of(pointer, 16)


@triton.jit
def load_width(record, field, ALIGNED: tl.constexpr):
    """Load a distance in elements, of which `ALIGNED` is a divisor."""
    return tl.multiple_of(tl.load(record + field), ALIGNED)


@triton.jit
def find_group(groups, field, index, ROWS: tl.constexpr):
    """Return the group that item `index` belongs to, and how many items groups before it have.

    field: the running sums of the groups' items.
    """
    if ROWS == 1:
        group, before = index * 0, index * 0
    else:
        ends = tl.load(groups + field * ROWS + tl.arange(0, ROWS)).to(tl.int32)
        group = tl.sum((ends <= index).to(tl.int32), 0)
        before = tl.max(tl.where(ends <= index, ends, 0), 0)
    return group, before


@triton.jit
def load_group_queries(
    query,
    kv_head,
    first_row,
    num_rows,
    NUM_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    TILE_ROWS: tl.constexpr,
    D: tl.constexpr,
):
    """Load the queries of a group's rows for one KV head [TILE_ROWS, WIDTH]; padding is zeros."""
    row, cols = tl.arange(0, TILE_ROWS), tile_columns(D)
    place, member = row // GROUP_PAD, row % GROUP_PAD
    offsets = ((first_row + place) * NUM_HEADS + kv_head * GROUP + member) * D  # [TILE_ROWS]
    is_row = (place < num_rows) & (member < GROUP)
    mask = mask_columns(is_row[:, None], D)
    return tl.load(query + offsets[:, None] + cols[None, :], mask=mask, other=0.0)


@triton.jit
def find_slots(
    groups, group, head, retrieval, num_keys, capacity, ROWS: tl.constexpr, SEGMENT: tl.constexpr,
    WHOLE: tl.constexpr,
):  # fmt: skip
    """Return the first place for scores of a group's tokens of a head, and how many there are.

    capacity: segments that may be listed. WHOLE: whether all of a head is read before its list gets
    longer than that.
    """
    segments = tl.cdiv(num_keys, SEGMENT)
    if not WHOLE:
        segments = tl.maximum(segments, capacity)
    begin = load_number(groups, SLOTS_BEGIN * ROWS + group) * retrieval + head * segments * SEGMENT
    return begin, segments * SEGMENT


@triton.jit
def load_listed(num_segments, pairs, PAIRS_PAD: tl.constexpr):
    """Load how many segments each pair of a group and a head has [PAIRS_PAD], 0 past `pairs`.

    A pair of which everything is read has a negative number.
    """
    pair = tl.arange(0, PAIRS_PAD)
    return tl.load(num_segments + pair, mask=pair < pairs, other=0)


@triton.jit
def add_read_bytes(
    read_bytes, size, masks, num_rows, QUESTIONS: tl.constexpr, TOKEN_BYTES: tl.constexpr
):
    """Add the bytes of clusters [COUNT], of `size` tokens, to every row that is set in `masks`."""
    question = tl.arange(0, QUESTIONS)
    is_set = (masks[:, None] >> question[None, :]) & 1  # [COUNT, QUESTIONS]
    amount = tl.sum(is_set * size[:, None], 0).to(tl.int64) * TOKEN_BYTES
    tl.atomic_add(read_bytes + question, amount, mask=question < num_rows, sem="relaxed")
