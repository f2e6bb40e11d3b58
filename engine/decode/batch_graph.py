"""One decoding pass of many rows, for any mixture of documents, in CUDA graphs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from engine.decode.captured_pass import CapturedPass
from engine.decode.model_variants import with_few_layers
from engine.decode.side_stream import SideStream
from engine.kernels.batch.accumulate_rows_mass import accumulate_rows_mass
from engine.kernels.batch.append_rows import append_rows
from engine.kernels.batch.attend_rows import attend_rows
from engine.kernels.batch.inputs import BatchInputs
from engine.kernels.batch.sizes import BatchSizes
from engine.kernels.batch.tables import DocumentTable, StepRow, StepTables
from engine.kernels.batch.workspace import Buffers, allocate_batch
from engine.kernels.decode.inputs import Scoring
from engine.model.attention import AttentionCall, forward


@dataclass(frozen=True)
class BatchLayer:
    """What is fixed of one layer.

    Attributes:
        retrieval: its retrieval heads; in a layer with a window, all KV heads.
        window: its sliding window, or None.
        has_sinks: whether its query heads have sink logits.
    """

    retrieval: int
    window: int | None
    has_sinks: bool


def few_of_each_kind(layers: Sequence[BatchLayer]) -> list[int]:
    """Choose layers, a few of each kind, whose kernels are those of all layers.

    Triton compiles a kernel anew for an argument that is 1 or a multiple of 16, and for an address
    that is a multiple of 16. What stands in a table by layer has at least four bytes, so the
    alignment of its address repeats every four layers.

    Returns: their indices, in order.
    """
    found: dict[tuple[BatchLayer, int, bool, bool], int] = {}
    for index, layer in enumerate(layers):
        found.setdefault((layer, index % 4, index % 16 == 0, index == 1), index)
    return sorted(found.values())


@dataclass(frozen=True, eq=False)
class LaunchedPass:
    """A pass that the device may still be computing.

    Attributes:
        order: place i of the step is rows[order[i]].
    """

    order: Sequence[int]
    _read_bytes: Tensor  # on the host
    _done: torch.cuda.Event | None

    def wait(self) -> None:
        """Wait for its end."""
        if self._done is not None:
            self._done.synchronize()

    def read_bytes(self) -> list[int]:
        """Wait for its end; bytes of clusters that each row read, in the order of the step."""
        self.wait()
        read: list[int] = self._read_bytes.tolist()
        return read


class BatchGraph:
    """A pass of as many rows as its sizes say; an `AttentionState`.

    Rows, groups and documents are found in tables, so that the pass is captured once, before there
    is any document.

    Args:
        sizes: rows at most, rows of a group, and how much their documents may have together.
        layers: of the model.
        pool: the questions' own keys and values (layers, 2, pages, kv_heads, PAGE, head_dim).
        documents: that rows are about.
        aggregation: how a group's scores are aggregated (`LookupConfig`).
        buffers: memory that it shares with other graphs, which are not replayed meanwhile.

    Attributes:
        logits: (rows, vocabulary) fp32 of the last pass, in the order of the rows that were given.
    """

    def __init__(
        self,
        sizes: BatchSizes,
        layers: Sequence[BatchLayer],
        pool: Tensor,
        documents: DocumentTable,
        aggregation: str,
        buffers: Buffers,
    ) -> None:
        self.sizes = sizes
        self._layers, self._pool, self._documents = layers, pool, documents
        self._aggregation = aggregation
        device = pool.device
        has_sinks = any(layer.has_sinks for layer in layers)
        self._work = allocate_batch(sizes, pool.dtype, device, has_sinks=has_sinks, buffers=buffers)
        self._tables = StepTables(sizes, self._work.tuning, device)
        self._side_stream = SideStream(device)  # evidence is collected beside the layers
        self._model: nn.Module | None = None
        self._captured = CapturedPass()
        self.logits = torch.zeros(0, device=device)

    @property
    def pool(self) -> Any:
        """The memory pool of the captured graphs; None if passes are no replays of them."""
        return self._captured.pool

    @torch.inference_mode()
    def prepare(self, model: nn.Module, pool: Any) -> None:
        """Take a pass without rows, for which kernels are compiled, and on a GPU capture it.

        Args:
            model: runs all passes from now on; its weights must stay where they are.
            pool: memory that captured passes share on the same device; None for their own.
        Raises: what the model, a compiler or a driver may raise; RuntimeError where something in
            the pass waits for the host.
        """
        self._model = model
        self._tables.device.zero_()
        if self._pool.is_cuda:  # layers are compiled in the first pass, so that runs all of them
            warm_up = None if pool is None else self._take_few_layers
            self._captured.capture(self._take_pass, pool, warm_up)
        else:
            self._take_pass()

    @torch.inference_mode()
    def run(self, rows: Sequence[StepRow], tokens: Tensor | None = None) -> LaunchedPass:
        """Launch a pass; nothing waits for the device.

        Args:
            rows: that fit (`engine.kernels.batch.tables.fits`).
            tokens: (rows,) int64 on the device, instead of those of the rows.
        """
        tables = self._tables
        order = tables.write(rows, self._documents)
        if tokens is not None:
            tables.tokens.scatter_(0, tables.places[: len(rows)], tokens)
        if self._captured.is_captured:
            self._captured.replay()
        else:
            self._take_pass()
        is_cuda, done = self._pool.is_cuda, None
        # Of this pass alone, as the next one may be launched before somebody looks at it.
        read_bytes = torch.empty(self.sizes.rows, dtype=torch.int64, pin_memory=is_cuda)
        read_bytes.copy_(self._work.read_bytes, non_blocking=True)
        if is_cuda:
            done = torch.cuda.Event()  # type: ignore[no-untyped-call]
            done.record()
        return LaunchedPass(order, read_bytes, done)

    def attend(self, call: AttentionCall) -> Tensor:
        """Write the rows' keys and values to their places, and attend.

        Returns: outputs (heads, rows, head_dim) in the query's dtype.
        """
        layer, (keys, values) = self._layers[call.layer], self._pool[call.layer]
        append_rows(keys, values, call.key, call.value, self._tables)
        query = call.query.transpose(0, 1).contiguous()  # (rows, heads, head_dim)
        self._side_stream.join()  # as layers share workspaces
        self._captured.cut_before(call.layer)
        inputs = BatchInputs(
            query,
            keys,
            values,
            self._tables,
            self._documents,
            call.layer,
            layer.retrieval,
            Scoring(call.scale, call.softcap, self._aggregation),
            layer.window,
            call.sink_logits,
        )
        out = attend_rows(inputs, self._work)
        # A layer with a window shows how close a token is, not what is asked about.
        if layer.window is None and layer.retrieval > 0:
            with self._side_stream.branch(query):  # while the layer goes on
                accumulate_rows_mass(inputs, self._work)
        return out.transpose(0, 1)

    def _take_few_layers(self) -> None:
        """Take a pass through a few layers of each kind. Raises: as `with_few_layers`."""
        assert self._model is not None
        kept = few_of_each_kind(self._layers)
        self._take_pass(with_few_layers(self._model, len(self._layers), kept))

    @torch.inference_mode()
    def _take_pass(self, model: nn.Module | None = None) -> None:
        """Take a pass.

        Args:
            model: that runs it; None for the one that runs all passes.
        """
        logits = self._pass(model or self._model)
        if self.logits.shape != logits.shape:  # the first pass
            self.logits = torch.empty_like(logits)
        self.logits.copy_(logits)

    def _pass(self, model: nn.Module | None) -> Tensor:
        """Compute the logits (rows, vocabulary) after the rows' tokens, as they were given."""
        assert model is not None  # it was warmed up
        self._work.read_bytes.zero_()
        tables, rows = self._tables, self.sizes.rows
        # Compiled layers are compiled anew for a view at another offset, as a prefill's have none.
        logits = forward(model, tables.tokens, tables.positions.clone(), self, keep=rows)
        self._side_stream.join()
        return logits[tables.places]
