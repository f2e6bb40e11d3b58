"""One layer's step of many rows over documents of awkward sizes, for the tests of its kernels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.kernels.batch.inputs import BatchInputs
from engine.kernels.batch.sizes import PAGE, BatchSizes
from engine.kernels.batch.tables import DocumentTable, StepRow, StepTables
from engine.kernels.batch.tuning import BatchTuning
from engine.kernels.batch.workspace import BatchWorkspace, allocate_batch
from engine.kernels.decode.inputs import ResidentLayer, Scoring, StreamingKeys
from engine.kernels.shared.sizes import ceil_div, power_of_two
from tests.engine.kernels.decode_case import DROPPED, runs
from tests.engine.kernels.harness import DEVICE, surrounded
from tests.engine.naive import normal

# Small tiles, so that small inputs are cut into many splits.
SMALL = BatchTuning(
    dense_programs=20,
    score_programs=25,
    mass_programs=5,
    score_block=16,
    score_stages=2,
    split_clusters=32,
    select_scores=64,
    segment_size=8,
    attend_block=32,
    attend_stages=2,
    attend_programs=3,
)
LAYER = 1  # of the table's two; the other one's records are zeros


@dataclass(frozen=True)
class Document:
    """Sizes of one document.

    Attributes:
        tokens: clustered tokens of a head.
    """

    tokens: int = 101
    clusters: int = 19
    anchors: int = 9
    streaming_keys: int = 21


@dataclass(frozen=True)
class Ask:
    """One row: which document it is about, the keys of its question, and what it selects."""

    document: int
    num_keys: int = 7
    threshold: float = -5.7
    reads_all: bool = False


@dataclass(frozen=True)
class BatchCase:
    """A step.

    Attributes:
        asks: its rows, in any order.
        sharpness: of all scores; 1.2 makes probabilities as they usually are.
        window: the layer's sliding window; documents have then neither clusters nor streaming
            heads.
    """

    documents: tuple[Document, ...]
    asks: tuple[Ask, ...]
    group_rows: int = 4
    retrieval: int = 2
    streaming: int = 1
    group: int = 4
    head_dim: int = 64
    softcap: float | None = None
    aggregation: str = "max_group_mean"
    window: int | None = None
    has_sinks: bool = False
    sharpness: float = 1.2
    tuning: BatchTuning = SMALL

    @property
    def kv_heads(self) -> int:
        """All of them."""
        return self.retrieval + self.streaming

    @property
    def sizes(self) -> BatchSizes:
        """Of the step: a bucket that just holds the rows."""
        most_keys = max(ask.num_keys for ask in self.asks)
        asked = [self.documents[ask.document] for ask in self.asks]
        return BatchSizes(
            rows=power_of_two(len(self.asks)),
            group_rows=self.group_rows,
            num_heads=self.kv_heads * self.group,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            max_pages=ceil_div(most_keys, PAGE) + 1,
            clusters=sum(each.clusters for each in asked),
            list_tokens=sum(each.tokens for each in asked),
            anchor_tokens=sum(each.anchors for each in asked),
        )

    def inputs(self, dtype: torch.dtype) -> BatchInputs:
        """Draw it; what is not to be read is nan, or an index out of range."""
        sizes = self.sizes
        device = torch.device(DEVICE)
        table = DocumentTable(len(self.documents) + 1, 2, device, self.kv_heads)
        head_weights = torch.linspace(-2.0, 0.5, 2 * self.kv_heads).view(2, self.kv_heads)
        if self.retrieval > 1:
            head_weights[LAYER, 0] = -torch.inf  # counts nothing
        for index, document in enumerate(self.documents):
            layer = self._layer(document, dtype, seed=100 * index)
            positions = self._positions(document, seed=index)
            num_tokens = document.anchors + document.tokens
            log_weights = None if index == 1 else head_weights.to(device)
            table.put(index, num_tokens, (layer, layer), (positions, positions), log_weights)
            table.records[index, 0] = 0
        pages = sum(ceil_div(ask.num_keys, PAGE) for ask in self.asks) + 1
        shape = (2, pages, self.kv_heads, PAGE, self.head_dim)
        pools = torch.full(shape, torch.nan, dtype=dtype, device=DEVICE)
        tables = StepTables(sizes, self.tuning, device)
        rows = self._rows(pools)
        tables.write(rows, table)
        query = normal(sizes.rows, sizes.num_heads, self.head_dim, dtype=dtype, seed=5).to(DEVICE)
        query[len(rows) :] = torch.nan
        return BatchInputs(
            query=surrounded(query),
            keys=pools[0],
            values=pools[1],
            tables=tables,
            documents=table,
            layer=LAYER,
            retrieval=self.retrieval,
            scoring=Scoring(
                self.sharpness / math.sqrt(self.head_dim), self.softcap, self.aggregation
            ),
            window=self.window,
            sink_logits=self._sinks(dtype) if self.has_sinks else None,
        )

    def workspace(self, inputs: BatchInputs) -> BatchWorkspace:
        """Buffers for the step; nothing of them is read before it is written."""
        work = allocate_batch(
            self.sizes,
            inputs.query.dtype,
            inputs.query.device,
            self.tuning,
            has_sinks=self.has_sinks,
        )
        for name in ("dense_out", "dense_lse", "scores", "cluster_lse", "listed_scores",
                     "anchor_scores", "split_out", "split_lse", "out", "lse"):  # fmt: skip
            getattr(work, name).fill_(torch.nan)
        for name in ("segments", "segment_masks", "token_masks", "segment_counts", "next_item",
                     "num_segments"):  # fmt: skip
            getattr(work, name).fill_(-77)
        return work

    def only(self, *asks: int) -> "BatchCase":
        """The same with some of the rows."""
        return replace(self, asks=tuple(self.asks[ask] for ask in asks))

    def _rows(self, pools: Tensor) -> Sequence[StepRow]:
        """Rows whose pages lie in another order than the rows, of keys drawn by row."""
        free = list(range(1, pools.shape[1]))[::-1]
        rows = []
        for index, ask in enumerate(self.asks):
            pages = [free.pop() for _ in range(ceil_div(ask.num_keys, PAGE))]
            shape = (2, self.kv_heads, ask.num_keys, self.head_dim)
            own = normal(*shape, dtype=pools.dtype, seed=1000 + index).to(DEVICE)
            hidden = 0 if self.window is None else max(0, ask.num_keys - self.window)
            own[:, :, :hidden] = torch.nan
            for place, page in enumerate(pages):
                part = own[:, :, place * PAGE : (place + 1) * PAGE]
                pools[:, page, :, : part.shape[2]] = part
            document = self.documents[ask.document]
            mass = torch.zeros(document.anchors + document.tokens, device=DEVICE)
            rows.append(
                StepRow(
                    ask.document, 3 + index, ask.num_keys, pages, ask.threshold, ask.reads_all, mass
                )
            )
        return rows

    def _layer(self, document: Document, dtype: torch.dtype, seed: int) -> ResidentLayer:
        d, heads = document, self.retrieval
        keys = normal(2, heads, d.anchors + d.tokens, self.head_dim, dtype=dtype, seed=seed + 1)
        keys = keys.to(DEVICE)
        if self.window is not None:  # what no row's window shows
            least = min(ask.num_keys for ask in self.asks)
            keys[:, :, : max(0, d.anchors + least - self.window)] = torch.nan
        centroids = normal(heads, d.clusters, self.head_dim, dtype=dtype, seed=seed + 4).to(DEVICE)
        return ResidentLayer(
            surrounded(keys[0]),
            surrounded(keys[1]),
            d.anchors,
            surrounded(centroids),
            surrounded(runs(heads, d.clusters, d.tokens, seed=seed + 3)),
            None,
            self._streaming(d, dtype, seed) if self.streaming else None,
            self.window,
        )

    def _streaming(self, document: Document, dtype: torch.dtype, seed: int) -> StreamingKeys:
        shape = (self.streaming, document.streaming_keys)
        log_weights = torch.zeros(shape, device=DEVICE)
        log_weights[:, -1] = math.log(DROPPED)
        keys = normal(2, *shape, self.head_dim, dtype=dtype, seed=seed + 8).to(DEVICE)
        return StreamingKeys(surrounded(keys[0]), surrounded(keys[1]), surrounded(log_weights))

    def _positions(self, document: Document, seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        num_tokens = document.anchors + document.tokens
        orders = [torch.randperm(num_tokens, generator=generator) for _ in range(self.retrieval)]
        places = torch.stack(orders) if orders else torch.zeros(0, num_tokens)
        return surrounded(places.int().to(DEVICE))

    def _sinks(self, dtype: torch.dtype) -> Tensor:
        """About as large as the log-sum-exp of a few keys."""
        heads = self.kv_heads * self.group
        return surrounded((3.0 + normal(heads, dtype=dtype, seed=10)).to(DEVICE))
