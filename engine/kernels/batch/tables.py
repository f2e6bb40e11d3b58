"""Tables in which kernels find rows, groups and documents on the device.

A captured step replays kernels with the arguments that it was captured with. What changes from step
to step stands in two tensors of int64 numbers at fixed addresses: `DocumentTable` has a record for
each layer of each resident document, and `StepTables` says which rows a step has.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from common.errors import ShapeError
from engine.kernels.batch.sizes import (
    PAGE,
    SEGMENT,
    BatchSizes,
    DocumentSizes,
    dense_split_keys,
)
from engine.kernels.batch.tuning import BatchTuning
from engine.kernels.decode.inputs import ResidentLayer
from engine.kernels.shared.sizes import ceil_div

ALIGNMENT = 16  # bytes: kernels load as many at a time
LOWEST_THRESHOLD = -1e30  # selects every cluster that holds a token


class Record(IntEnum):
    """Numbers of a document's record of one layer; the first ones are addresses."""

    KEYS = 0
    VALUES = 1
    CENTROIDS = 2
    OFFSETS = 3
    POSITIONS = 4
    STREAMING_KEYS = 5
    STREAMING_VALUES = 6
    LOG_WEIGHTS = 7
    KEY_STRIDE = 8  # numbers between two heads' keys
    NUM_ANCHORS = 9
    NUM_KEYS = 10  # clustered
    NUM_CLUSTERS = 11
    NUM_STREAMING = 12
    SIZE = 16


class Header(IntEnum):
    """Numbers that a step has once. A *kind* of layers is those with, or without, a window."""

    NUM_ROWS = 0
    NUM_GROUPS = 1
    NUM_SPLITS = 2  # of one head's centroids, over all groups
    NUM_CHUNKS = 3  # of one head's clusters, over all groups
    ANCHOR_TILES = 4  # of the row that has most
    DENSE = 8  # first number of the first kind: keys of a split
    DENSE_DOCUMENT_SPLITS = 9
    DENSE_OWN_SPLITS = 10
    DENSE_SIZE = 4  # numbers of a kind
    SIZE = 16


class Group(IntEnum):
    """Numbers of a group; each stands in a row of its own, (Group.SIZE, rows)."""

    DOCUMENT = 0  # its slot in the document table
    FIRST_ROW = 1
    NUM_ROWS = 2
    READS_ALL = 3
    SPLITS_END = 4  # splits of one head's centroids, of this group and all before it
    CHUNKS_END = 5
    CLUSTERS_BEGIN = 6  # clusters of one head in all groups before this one
    SEGMENTS_BEGIN = 7
    TOKENS_BEGIN = 8
    SLOTS_BEGIN = 9  # places for scores
    SIZE = 10


class RowField(IntEnum):
    """Numbers of a row; each stands in a row of its own, (RowField.SIZE, rows)."""

    TOKEN = 0  # its id
    POSITION = 1  # in the prompt
    LENGTH = 2  # keys of its question, its own included
    GROUP = 3
    DOCUMENT = 4
    THRESHOLD = 5  # the bits of an fp32 number
    MASS = 6  # an address: attention mass by place in the document, fp32
    ANCHORS_BEGIN = 7  # anchors of the documents of all rows before this one
    PLACE = 8  # of row i of those that were given, in the order of the step
    SIZE = 9


@dataclass(frozen=True)
class StepRow:
    """The next token of one question.

    Attributes:
        document: its document's slot in the document table.
        token: its id.
        num_keys: keys of its question, its own included.
        pages: the pages of the question's keys, in their order.
        threshold: of level 2, in nats.
        reads_all: whether it reads the whole document without a lookup.
        mass: (document tokens,) fp32, contiguous, by place in the document: squares of its
            attention weights are added.
    """

    document: int
    token: int
    num_keys: int
    pages: Sequence[int]
    threshold: float
    reads_all: bool
    mass: Tensor


class DocumentTable:
    """The addresses and sizes of resident documents by slot and layer.

    Args:
        slots: documents at most.
        num_layers: of the model.
        kv_heads: of its layers, the most.

    Attributes:
        records: (slots, layers, Record.SIZE) int64 on the device.
        sizes: of the document in each slot; None where there is none.
        layers, positions: its layers, and where their keys are; both keep tensors alive.
        log_weights: (slots, layers, kv_heads) fp32 on the device: logarithms of how much each
            retrieval head counts in a row's mass; 0 for all alike, -inf for not at all.
    """

    def __init__(self, slots: int, num_layers: int, device: torch.device, kv_heads: int) -> None:
        self.log_weights = torch.zeros(slots, num_layers, kv_heads, device=device)
        size = (slots, num_layers, Record.SIZE)
        self.records = torch.zeros(size, dtype=torch.int64, device=device)
        self.sizes: list[DocumentSizes | None] = [None] * slots
        self.layers: list[tuple[ResidentLayer, ...]] = [()] * slots
        self.positions: list[tuple[Tensor, ...]] = [()] * slots

    def put(
        self,
        slot: int,
        num_tokens: int,
        layers: Sequence[ResidentLayer],
        positions: Sequence[Tensor],
        log_weights: Tensor | None = None,
    ) -> None:
        """Put a document into a slot.

        Args:
            num_tokens: where its questions' positions begin.
            layers: its layers, one level of lookup each.
            positions: (retrieval heads, keys) int32 by layer, each key's place in the document.
            log_weights: (layers, heads) fp32, of its retrieval heads; None for all alike.
        Raises: ShapeError if layers of a kind differ in size, or one has a level 1.
        """
        rows = [_record(layer, place) for layer, place in zip(layers, positions, strict=True)]
        self.sizes[slot] = _document_sizes(num_tokens, layers)
        self.layers[slot], self.positions[slot] = tuple(layers), tuple(positions)
        self.records[slot].copy_(torch.tensor(rows, dtype=torch.int64))
        self.log_weights[slot].zero_()
        if log_weights is not None:
            self.log_weights[slot, :, : log_weights.shape[1]] = log_weights

    def remove(self, slot: int) -> None:
        """Take a document out of its slot; no step that reads it may be running."""
        self.sizes[slot], self.layers[slot], self.positions[slot] = None, (), ()

    def free_slot(self) -> int | None:
        """Return a slot without a document; None if all have one."""
        return next((slot for slot, sizes in enumerate(self.sizes) if sizes is None), None)

    def size_of(self, slot: int) -> DocumentSizes:
        """Return the sizes of the document in a slot, which must have one."""
        sizes = self.sizes[slot]
        assert sizes is not None
        return sizes


class Subject(NamedTuple):
    """What a row is about.

    Attributes:
        document: its slot in the document table.
        reads_all: whether the row reads all of it.
    """

    document: int
    reads_all: bool
    sizes: DocumentSizes


class StepTables:
    """What a step reads beside documents and weights, in one tensor that one copy fills.

    Args:
        sizes: of the step.
        tuning: of its kernels.

    Attributes:
        device: all numbers (n,) int64 on the device.
        header, groups, rows, pages: views of it: (Header.SIZE,), (Group.SIZE, rows),
            (RowField.SIZE, rows) and (rows, max_pages).
        plan: the rows that were written last, in their order on the device.
    """

    def __init__(self, sizes: BatchSizes, tuning: BatchTuning, device: torch.device) -> None:
        self.sizes, self.tuning = sizes, tuning
        shapes = (
            (int(Header.SIZE),),
            (int(Group.SIZE), sizes.rows),
            (int(RowField.SIZE), sizes.rows),
            (sizes.rows, sizes.max_pages),
        )
        total = sum(int(np.prod(shape)) for shape in shapes)
        pinned = device.type == "cuda"
        self._host = torch.zeros(total, dtype=torch.int64, pin_memory=pinned)
        self.device = torch.zeros(total, dtype=torch.int64, device=device)
        self._header, self._groups, self._rows, self._pages = _views(self._host.numpy(), shapes)
        self.header, self.groups, self.rows, self.pages = _views(self.device, shapes)
        self.plan: tuple[StepRow, ...] = ()
        self._copied: torch.cuda.Event | None = None  # the last copy to the device
        # What the rows that were written last are about, in their order on the device.
        self._about: list[Subject] = []
        self._num_tokens = np.zeros(0, np.int64)  # of the document of each row of the plan
        self._dense = (0, 0)  # most dense keys of a document, and most of its last window

    @property
    def places(self) -> Tensor:
        """Where each of the given rows stands in the step (rows,) int64 on the device."""
        view: Tensor = self.rows[RowField.PLACE]
        return view

    @property
    def tokens(self) -> Tensor:
        """Ids of the rows' tokens (rows,) int64 on the device."""
        view: Tensor = self.rows[RowField.TOKEN]
        return view

    @property
    def positions(self) -> Tensor:
        """Positions of the rows' tokens (rows,) int64 on the device."""
        view: Tensor = self.rows[RowField.POSITION]
        return view

    @property
    def chunk_clusters(self) -> int:
        """Clusters that a program of `select_kernel` looks at at a time."""
        return max(1, self.tuning.select_scores // self.sizes.tile_rows)

    def write(self, rows: Sequence[StepRow], documents: DocumentTable) -> list[int]:
        """Order rows by document, form groups, and write the tables; nothing waits for the device.

        It waits for the copy of the step before, if that has not ended.

        Args:
            rows: at least one; `fits` them.
            documents: that they are about.
        Returns: the order: place i of the step is rows[order[i]].
        """
        if self._copied is not None:
            self._copied.synchronize()
        order = sorted(range(len(rows)), key=lambda index: _by_document(rows[index]))
        self.plan = tuple(rows[index] for index in order)
        about = subjects(self.plan, documents)
        if about != self._about:  # the same from step to step, while nobody comes or goes
            self._write_groups([documents.size_of(row.document) for row in self.plan])
            self._about = about
        self._rows[RowField.PLACE, order] = np.arange(len(order))
        self._write_rows()
        self.device.copy_(self._host, non_blocking=True)
        if self.device.is_cuda:
            self._copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._copied.record()
        return order

    def _write_groups(self, sizes: list[DocumentSizes]) -> None:
        """Write what follows from the rows' documents alone, and zeros for all else.

        Args:
            sizes: of the document of each row of the plan.
        """
        groups = form_groups(self.plan, self.sizes.group_rows)
        self._rows.fill(0)
        self._groups.fill(0)
        table, count = self._groups, len(groups)
        table[Group.DOCUMENT, :count] = [group[0].document for group in groups]
        table[Group.NUM_ROWS, :count] = [len(group) for group in groups]
        table[Group.FIRST_ROW] = _before(table[Group.NUM_ROWS])
        table[Group.READS_ALL, :count] = [group[0].reads_all for group in groups]
        of_groups = [sizes[first] for first in table[Group.FIRST_ROW, :count]]
        looked_up = [
            None if group[0].reads_all else each
            for group, each in zip(groups, of_groups, strict=True)
        ]
        clusters = [0 if each is None else each.num_clusters for each in looked_up]
        segment = self.tuning.segment_size
        listed = [0 if each is None else each.num_segments(segment) for each in looked_up]
        reads_whole = self.sizes.reads_whole
        slots = [each.num_slots(segment, reads_whole=reads_whole) for each in of_groups]
        table[Group.SPLITS_END] = self._ends(clusters, self.tuning.split_clusters)
        # A group that reads all of it has one chunk too, which says so.
        table[Group.CHUNKS_END] = self._ends([max(1, c) for c in clusters], self.chunk_clusters)
        table[Group.CLUSTERS_BEGIN] = self._begins(clusters)
        table[Group.SEGMENTS_BEGIN] = self._begins(listed)
        table[Group.SLOTS_BEGIN] = self._begins(slots)
        table[Group.TOKENS_BEGIN] = self._begins(
            [0 if each is None else each.num_keys for each in looked_up]
        )
        row_table, num_rows = self._rows, len(self.plan)
        row_table[RowField.GROUP, :num_rows] = np.repeat(np.arange(count), [*map(len, groups)])
        row_table[RowField.DOCUMENT, :num_rows] = [row.document for row in self.plan]
        row_table[RowField.ANCHORS_BEGIN] = self._begins([each.num_anchors for each in sizes])
        header = self._header
        header[Header.NUM_ROWS], header[Header.NUM_GROUPS] = num_rows, count
        header[Header.NUM_SPLITS] = table[Group.SPLITS_END, -1]
        header[Header.NUM_CHUNKS] = table[Group.CHUNKS_END, -1]
        header[Header.ANCHOR_TILES] = ceil_div(max(each.num_anchors for each in sizes), PAGE)
        self._num_tokens = np.array([each.num_tokens for each in sizes])
        self._dense = (
            max(each.dense_keys for each in sizes),
            max(each.num_window for each in sizes),
        )

    def _write_rows(self) -> None:
        """Write what changes with every token."""
        rows, count, table = self.plan, len(self.plan), self._rows
        table[RowField.TOKEN, :count] = [row.token for row in rows]
        table[RowField.LENGTH, :count] = [row.num_keys for row in rows]
        table[RowField.POSITION, :count] = self._num_tokens + table[RowField.LENGTH, :count] - 1
        thresholds = [max(row.threshold, LOWEST_THRESHOLD) for row in rows]
        table[RowField.THRESHOLD, :count] = np.array(thresholds, np.float32).view(np.int32)
        table[RowField.MASS, :count] = [row.mass.data_ptr() for row in rows]
        for place, row in enumerate(rows):
            used = ceil_div(row.num_keys, PAGE)
            self._pages[place, :used] = row.pages[:used]
        own = max(row.num_keys for row in rows)
        for kind, document in enumerate(self._dense):
            keys = dense_split_keys(document, own)
            first = Header.DENSE + kind * Header.DENSE_SIZE
            self._header[first : first + 3] = (keys, ceil_div(document, keys), ceil_div(own, keys))

    def _ends(self, amounts: list[int], divisor: int) -> npt.NDArray[np.int64]:
        """Running sums of the amounts over the divisor, rounded up; the last one repeats."""
        parts = np.zeros(self.sizes.rows, np.int64)
        parts[: len(amounts)] = [ceil_div(amount, divisor) for amount in amounts]
        return parts.cumsum()

    def _begins(self, amounts: list[int]) -> npt.NDArray[np.int64]:
        """Sums of all amounts before each."""
        parts = np.zeros(self.sizes.rows, np.int64)
        parts[: len(amounts)] = amounts
        return _before(parts)


def subjects(rows: Iterable[StepRow], documents: DocumentTable) -> list[Subject]:
    """What rows are about, by document; groups and graphs follow from nothing else."""
    return [
        Subject(row.document, row.reads_all, documents.size_of(row.document))
        for row in sorted(rows, key=_by_document)
    ]


def _by_document(row: StepRow) -> tuple[int, bool]:
    """What rows of a step are ordered by."""
    return row.document, row.reads_all


def form_groups(rows: Sequence[StepRow], group_rows: int) -> list[list[StepRow]]:
    """Cut ordered rows into groups of one document, of at most `group_rows`."""
    groups: list[list[StepRow]] = []
    for row in rows:
        last = groups[-1] if groups else None
        is_new = last is None or len(last) == group_rows
        if is_new or (last[0].document, last[0].reads_all) != (row.document, row.reads_all):  # type: ignore[index]
            groups.append([row])
        else:
            groups[-1].append(row)
    return groups


def fits(rows: Sequence[StepRow], documents: DocumentTable, sizes: BatchSizes) -> bool:
    """Return whether a step of such sizes can take the rows together."""
    if not 0 < len(rows) <= sizes.rows:
        return False
    if max(ceil_div(row.num_keys, PAGE) for row in rows) > sizes.max_pages:
        return False
    ordered = sorted(rows, key=_by_document)
    groups = form_groups(ordered, sizes.group_rows)
    of_groups = [documents.size_of(group[0].document) for group in groups]
    looked_up = [documents.size_of(g[0].document) for g in groups if not g[0].reads_all]
    of_rows = [documents.size_of(row.document) for row in rows]
    return (
        sum(each.num_clusters for each in looked_up) <= sizes.clusters
        and sum(each.num_keys for each in looked_up) <= sizes.list_tokens
        and sum(each.num_slots(SEGMENT, reads_whole=sizes.reads_whole) for each in of_groups)
        <= sizes.score_slots
        and sum(each.num_anchors for each in of_rows) <= sizes.anchor_tokens
    )


def _record(layer: ResidentLayer, positions: Tensor) -> list[int]:
    if layer.upper is not None:
        raise ShapeError("A document with two levels of lookup has no table of its layers.")
    streaming = layer.streaming
    tensors: tuple[Tensor | None, ...] = (
        layer.keys, layer.values, layer.centroids, layer.offsets, positions,
        *((None,) * 3 if streaming is None
          else (streaming.keys, streaming.values, streaming.log_weights)),
    )  # fmt: skip
    numbers = [0 if tensor is None else tensor.data_ptr() for tensor in tensors]
    if any(address % ALIGNMENT for address in numbers):
        raise ShapeError("A tensor of a document does not begin at a multiple of 16 bytes.")
    numbers += [
        layer.keys.stride(0),
        layer.num_anchors,
        layer.keys.shape[1] - layer.num_anchors,
        layer.centroids.shape[1],
        0 if streaming is None else streaming.keys.shape[1],
    ]
    return numbers + [0] * (Record.SIZE - len(numbers))


def _document_sizes(num_tokens: int, layers: Sequence[ResidentLayer]) -> DocumentSizes:
    """Return the sizes that all layers share; layers without retrieval heads have no say."""
    clustered = {
        (layer.num_anchors, layer.keys.shape[1] - layer.num_anchors, layer.centroids.shape[1])
        for layer in layers
        if layer.window is None and len(layer.keys)
    } or {(0, 0, 0)}
    streaming = {layer.streaming.keys.shape[1] for layer in layers if layer.streaming is not None}
    windowed = {layer.num_anchors for layer in layers if layer.window is not None}
    for sizes in (clustered, streaming, windowed):
        if len(sizes) > 1:
            raise ShapeError("The layers of a document differ in size.")
    return DocumentSizes(
        num_tokens, *clustered.pop(), next(iter(streaming), 0), next(iter(windowed), 0)
    )


def _before(amounts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return amounts.cumsum() - amounts


def _views(whole: "npt.NDArray[np.int64] | Tensor", shapes: Iterable[tuple[int, ...]]) -> list:  # type: ignore[type-arg]
    """Cut a flat array or tensor into views of the shapes, one behind the other."""
    views, begin = [], 0
    for shape in shapes:
        end = begin + int(np.prod(shape))
        views.append(whole[begin:end].reshape(shape))
        begin = end
    return views
