"""Forward passes on a GPU in graphs that any questions about any documents share."""

import logging
import weakref
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from common.errors import LecternError
from engine.attend.evidence import AttentionMass
from engine.config import DecodeConfig
from engine.decode.batch_graph import BatchGraph, BatchLayer, LaunchedPass
from engine.decode.graph_pool import VARIANTS, make_variant
from engine.decode.graph_runner import GraphRunner
from engine.decode.layer_view import resident_layer
from engine.decode.model_variants import one_code_for_all_sizes
from engine.decode.pass_bytes import PassBytes
from engine.decode.question_graphs import QuestionGraphs, QuestionPart
from engine.decode.running_answer import PrefillChunk, RunningAnswer
from engine.decode.torch_runner import MAX_ROWS
from engine.document.cache import DocumentCache
from engine.fallbacks import Cause, Fallbacks, Part
from engine.kernels.batch.sizes import PAGE, BatchSizes
from engine.kernels.batch.tables import DocumentTable, StepRow, Subject, fits, subjects
from engine.kernels.batch.workspace import Buffers
from engine.kernels.shared.sizes import ceil_div, has_kernels
from engine.model.loader import LoadedModel

SLOTS = 256  # documents at most
GROUP_ROWS = {1: (1,), 2: (2,), 4: (4,), 8: (4, 8), 16: (4, 16), 32: (4, 16), 64: (4, 16)}
# What a token of a group costs by rows of a group: wide tiles are slower where few rows use them.
GROUP_COST = {1: 1.0, 2: 1.0, 4: 1.0, 8: 1.2, 16: 1.4}
# And a pass however short its documents are, in tokens: a lookup of wide tiles takes longer.
PASS_COST = {1: 0, 2: 0, 4: 0, 8: 12_000, 16: 12_000}
MAX_TILE_ROWS = 128  # rows of a group x query heads of a KV head
MAX_QUESTION_TOKENS = 8192  # of question and answer, in pages; longer ones decode by another way
PAGES_SHARE = 0.03  # of the device's memory for the questions' own keys
WORK_SHARE = 1 / 100  # and for each of the three largest buffers of a pass
MAX_ANCHORS = 4096  # of a document on average at most
UNKNOWN = 0  # instead of a token that stands on the device alone
CLUSTER_TOKENS = 16  # tokens of a cluster on average at least, where buffers are measured
log = logging.getLogger("lectern.decoding")


@dataclass
class _Held:
    """What the runner holds of one answer while its keys are in pages.

    Attributes:
        slot: its document's, in the document table.
        pages: of the pool.
        num_keys: keys in them.
    """

    slot: int
    num_keys: int
    pages: list[int] = field(default_factory=list)

    @property
    def room(self) -> int:
        """Keys that the pages have room for."""
        return len(self.pages) * PAGE


@dataclass(frozen=True)
class _Taken:
    """A pass that a row has taken, as row `place` of a graph's step."""

    launched: LaunchedPass
    place: int
    running: RunningAnswer
    reads_all: bool


@dataclass(frozen=True)
class _Begun:
    """A pass that was begun before it was asked for.

    Attributes:
        logits: of its rows (rows, vocabulary), which the device may still be computing.
        taken: what its rows take with it.
        runs_ahead: whether the tokens were not known when it was launched.
    """

    rows: tuple[RunningAnswer, ...]
    logits: Tensor
    taken: Sequence[_Taken]
    runs_ahead: bool


class BatchRunner(GraphRunner):
    """A `ModelRunner` whose passes are CUDA graphs for any documents.

    Graphs are captured for numbers of rows, and of tokens in prefills, when the runner is warmed up
    or takes its first pass. What no such graph can take (two levels of lookup, more tokens than the
    pages hold, ...) is computed as by `GraphRunner`, with a logged reason.

    Args:
        model: the loaded model, whose layers have equal heads; see `why_unsupported`.
        config: what may be used on a GPU.
        aggregation: how scores of a group are aggregated (`LookupConfig`); documents with another
            one are decoded as by `GraphRunner`.
        max_rows: rows of a pass at most.
        fallbacks: as for `GraphRunner`.
    """

    def __init__(
        self,
        model: LoadedModel,
        config: DecodeConfig,
        *,
        aggregation: str = "max_group_mean",
        max_rows: int = MAX_ROWS,
        fallbacks: Fallbacks | None = None,
    ) -> None:
        super().__init__(model, config, max_rows, fallbacks)
        if config.compiled_layers is None:
            config = replace(config, compiled_layers=model.device.type == "cuda")
        self._config, self._aggregation = config, aggregation
        self._layers = [
            BatchLayer(
                layer.num_kv_heads if layer.window is not None else model.plan.num_retrieval(index),
                layer.window,
                layer.has_sink_logits,
            )
            for index, layer in enumerate(model.spec.layers)
        ]
        device = model.device
        most_heads = max(layer.num_kv_heads for layer in model.spec.layers)
        self._documents = DocumentTable(SLOTS, model.spec.num_layers, device, most_heads)
        self._slots: dict[int, int | None] = {}
        self._bytes: dict[int, PassBytes] = {}  # as `_slots`, by the id of a document
        first, memory = model.spec.layers[0], _memory_of(device)
        shape = (model.spec.num_layers, 2, first.num_kv_heads, PAGE, first.head_dim)
        page_bytes = torch.Size(shape).numel() * model.dtype.itemsize
        num_pages = min(int(memory * PAGES_SHARE) // page_bytes, max_rows * 1024 // PAGE)
        self._pool = torch.zeros(
            *shape[:2], max(1, num_pages), *shape[2:], dtype=model.dtype, device=device
        )
        self._free_pages = list(range(len(self._pool[0, 0])))
        self._held: dict[RunningAnswer, _Held] = {}
        self._alone: weakref.WeakSet[RunningAnswer] = weakref.WeakSet()  # for which it was told
        self._pending: list[_Taken] = []  # passes whose reads are still to be fetched
        self._begun: _Begun | None = None
        self._graphs: dict[tuple[int, int], BatchGraph] = {}
        self._least_sizes: BatchSizes | None = None  # of the smallest graph
        # What the last pass was about, and its graph: the next one is mostly about the same.
        self._chosen: tuple[list[Subject], BatchGraph] | None = None
        self._questions: QuestionGraphs | None = None
        self._variant: nn.Module = model.model  # what graphs run
        self._work_bytes = int(memory * WORK_SHARE)
        self._failed = False

    # -- life of the runner and of answers ---------------------------------------------------------

    def warm_up(self) -> None:
        """Make and capture all graphs; where that fails, answers are decoded in another way."""
        if self._graphs or self._failed:
            return
        try:
            with one_code_for_all_sizes():
                variant = self._make_graphs()
        except LecternError:
            raise
        except Exception:  # whatever a compiler or a driver may raise: other ways still work
            log.warning("decoding document by document: batches failed", exc_info=True)
            self._fallbacks.count(Part.BATCH, Cause.FAILED)
            self._failed, self._graphs = True, {}
            return
        log.info(
            "decoding in %d graphs with %s", len(self._graphs), variant or "the model as it is"
        )
        self._make_questions()

    def add_document(self, key: Hashable, document: DocumentCache) -> None:  # noqa: ARG002
        """Put a document into the table before its first question, while half of it is free."""
        if self._graphs and len(self._slots) < SLOTS // 2 and self._slot_of(document) is not None:
            self._bytes_of(document)

    def remove(self, running: RunningAnswer) -> None:
        """Leave the answer's keys and values in its state, and give its pages back.

        It waits for a pass that was begun for the answer, as that reads its document.
        """
        if self._begun is not None:
            self._withdraw(running, self._begun)
        if any(taken.running is running for taken in self._pending):
            self._settle()
        self._release(running)
        super().remove(running)
        if self._begun is not None and not any(row in self._sessions for row in self._begun.rows):
            self._begun = None  # nobody will ask for it

    def _withdraw(self, running: RunningAnswer, begun: _Begun) -> None:
        """A pass that was begun turns out to be none of an answer's: nothing of it counts."""
        for taken in begun.taken:
            if taken.running is running:
                taken.launched.wait()
                self._held[running].num_keys -= 1

    def prefill(self, chunks: Sequence[PrefillChunk]) -> Tensor:
        """Take parts in graphs, and those that fit into none as `TorchRunner` does."""
        self._settle()
        self.warm_up()
        found: dict[RunningAnswer, Tensor] = {}
        parts = [part for chunk in chunks if (part := self._question_part(chunk)) is not None]
        if self._questions is not None and parts:
            found = {
                part.chunk.running: logits
                for part, logits in zip(parts, self._questions.prefill(parts), strict=True)
            }
        others = [chunk for chunk in chunks if chunk.running not in found]
        if others:
            last = [chunk.running for chunk in others if chunk.is_last]
            found |= zip(last, super().prefill(others), strict=True)
        rows = [found[chunk.running] for chunk in chunks if chunk.is_last]
        return torch.stack(rows) if rows else torch.empty(0)

    def begin_decode(self, rows: Sequence[RunningAnswer], tokens: Tensor | None = None) -> None:
        """Launch what `decode` of these rows launches.

        Args:
            tokens: (rows,) int64 on the device, see `ModelRunner.begin_decode`; None: each row's
                `last_token`.
        """
        if tokens is None:
            self._settle()  # else the last pass is still computed
        logits, taken = self._decode(rows, tokens)
        self._begun = _Begun(tuple(rows), logits, taken, runs_ahead=tokens is not None)

    def can_run_ahead(self, rows: Sequence[RunningAnswer]) -> bool:
        """Whether graphs have taken the last pass of the rows, and will take the next one."""
        in_graphs = {taken.running for taken in self._pending}
        return in_graphs == set(rows) and all(self._can_hold(row) for row in rows)

    def decode(self, rows: Sequence[RunningAnswer]) -> Tensor:
        """Take a pass for all rows, or a few where they do not fit together."""
        self._settle()
        begun, self._begun = self._begun, None
        if begun is None or not set(rows) <= set(begun.rows):
            logits, self._pending = self._decode(rows)
            return logits
        self._pending = [taken for taken in begun.taken if taken.running in rows]
        if begun.runs_ahead:
            for row in rows:
                _mass_of(row).accept()
        if tuple(rows) == begun.rows:
            return begun.logits
        return begun.logits[[begun.rows.index(row) for row in rows]]

    def _decode(
        self, rows: Sequence[RunningAnswer], tokens: Tensor | None = None
    ) -> tuple[Tensor, list[_Taken]]:
        """Launch a pass, as `begin_decode`; logits, and what rows that are held take with it."""
        self.warm_up()
        held = [row for row in rows if self._hold(row)]
        if not held:
            return super().decode(rows), []
        masses = [_mass_of(row) for row in held]
        places = [mass.by_place for mass in masses]
        if tokens is not None:
            places = AttentionMass.run_ahead(masses)
        steps = [
            (row, self._step_row(row, UNKNOWN if tokens is not None else row.last_token, by_place))
            for row, by_place in zip(held, places, strict=True)
        ]
        taken: list[_Taken] = []
        logits: dict[RunningAnswer, Tensor] = {}
        for graph, part in self._parts(steps):
            ids = tokens
            if tokens is not None and len(part) < len(rows):
                ids = tokens[[rows.index(row) for row, _ in part]]
            launched = graph.run([row for _, row in part], ids)
            taken += [
                _Taken(launched, place, part[row][0], part[row][1].reads_all)
                for place, row in enumerate(launched.order)
            ]
            if len(part) == len(rows):
                return graph.logits[: len(rows)], taken
            for (running, _), each in zip(part, graph.logits, strict=False):
                logits[running] = each.clone()
        others = [row for row in rows if row not in logits]
        if others:
            logits |= zip(others, super().decode(others), strict=True)
        return torch.stack([logits[row] for row in rows]), taken

    def close(self) -> None:
        """Give up graphs and pages."""
        self._graphs, self._held, self._pending = {}, {}, []
        self._questions = self._chosen = self._begun = None
        super().close()

    def _question_part(self, chunk: PrefillChunk) -> QuestionPart | None:
        """A part as graphs of prefills take it; None, with a logged reason, if none holds it."""
        document = chunk.running.state.document
        if self._questions is None or (slot := self._slot_of(document)) is None:
            return None
        cause = self._questions.refuses(chunk, self._documents.size_of(slot))
        if cause is not None:
            log.info("%d tokens are prefilled without a graph: %s", len(chunk.ids), cause)
            self._fallbacks.count(Part.PREFILL, cause)
            return None
        return QuestionPart(chunk, slot, self._bytes_of(document))

    # -- steps -------------------------------------------------------------------------------------

    def _step_row(self, running: RunningAnswer, token: int, by_place: Tensor) -> StepRow:
        """A row's next pass, whose attention mass is added to `by_place`."""
        held, state = self._held[running], running.state
        held.num_keys += 1
        reads_all, threshold = state.controller is None, 0.0
        if state.controller is not None:
            thresholds = state.controller.next_thresholds()
            reads_all, threshold = thresholds.reads_all, thresholds.level2
        return StepRow(held.slot, token, held.num_keys, held.pages, threshold, reads_all, by_place)

    def _settle(self) -> None:
        """Tell the meters what the last pass read."""
        read_bytes: dict[LaunchedPass, list[int]] = {}
        for taken in self._pending:
            if taken.launched not in read_bytes:
                read_bytes[taken.launched] = taken.launched.read_bytes()
            pass_bytes = self._bytes_of(taken.running.state.document)
            read = pass_bytes.whole
            if not taken.reads_all:
                read = pass_bytes.fixed + read_bytes[taken.launched][taken.place]
            meter = taken.running.state.meter
            meter.add_pass(read, pass_bytes.full, pass_bytes.windowed)
        self._pending = []

    def _parts(
        self, steps: list[tuple[RunningAnswer, StepRow]]
    ) -> list[tuple[BatchGraph, list[tuple[RunningAnswer, StepRow]]]]:
        """Cut the rows into passes, each with the graph whose groups read least."""
        rows = [row for _, row in steps]
        about = subjects(rows, self._documents)
        if self._chosen is not None and self._chosen[0] == about:
            return [(self._chosen[1], steps)]
        if fitting := self._fitting(rows):
            graph = min(fitting, key=lambda graph: self._cost(graph, rows))
            self._chosen = about, graph
            return [(graph, steps)]
        steps = sorted(steps, key=lambda step: step[1].document)
        middle = len(steps) // 2
        return self._parts(steps[:middle]) + self._parts(steps[middle:])

    def _fitting(self, rows: list[StepRow]) -> list[BatchGraph]:
        """The graphs of the least number of rows that can take a step."""
        enough = [size for size, _ in self._graphs if size >= len(rows)]
        return [
            graph
            for (size, _), graph in self._graphs.items()
            if size == min(enough, default=0) and fits(rows, self._documents, graph.sizes)
        ]

    def _cost(self, graph: BatchGraph, rows: list[StepRow]) -> float:
        """What a step takes in a graph, as `pass_cost`."""
        counts = Counter((row.document, row.reads_all) for row in rows)
        return pass_cost(
            graph.sizes.group_rows,
            (
                (count, self._documents.size_of(document).num_keys)
                for (document, _), count in counts.items()
            ),
        )

    # -- what is held of answers -------------------------------------------------------------------

    def _can_hold(self, running: RunningAnswer) -> bool:
        """Whether an answer whose keys are in pages has, or gets, room for one more."""
        held = self._held[running]
        if held.num_keys < held.room:
            return True
        return self._has_room(running, held) and self._num_missing(held) <= len(self._free_pages)

    def _hold(self, running: RunningAnswer) -> bool:
        """Whether a graph can take the answer's next token: its keys have their pages then."""
        if self._failed or running.state.mass is None:
            return False
        held = self._held.get(running)
        if held is not None and held.num_keys < held.room:
            return True
        if held is None:
            slot = self._slot_of(running.state.document)
            if slot is None:
                return False
            num_keys = running.state.position - running.state.document.num_tokens
            held = _Held(slot, num_keys)
            if not self._has_room(running, held) or not self._take_pages(held):
                self._tell_alone(running)
                return False
            self._held[running] = held
            self._write_pages(running, held)
            running.state.meter.settle()  # the device has nothing to do yet
            return True
        if self._has_room(running, held) and self._take_pages(held):
            return True
        self._tell_alone(running)
        self._release(running)
        return False

    def _tell_alone(self, running: RunningAnswer) -> None:
        """Log and count, once for each answer, that there is no room for it in batches."""
        if running not in self._alone:
            self._alone.add(running)
            log.info("an answer decodes on its own: there is no room for it in batches")
            self._fallbacks.count(Part.BATCH, Cause.NO_ROOM)

    def _has_room(self, running: RunningAnswer, held: _Held) -> bool:
        document, sizes = self._documents.size_of(held.slot), self._least_sizes
        assert sizes is not None  # there are graphs
        return (
            held.num_keys < min(MAX_QUESTION_TOKENS, sizes.max_pages * PAGE)
            and document.num_clusters <= sizes.clusters
            and document.num_keys <= sizes.list_tokens
            and document.num_anchors <= sizes.anchor_tokens
            and running in self._sessions
        )

    def _take_pages(self, held: _Held) -> bool:
        """Take pages for one more key; False, and none taken, if there are too few."""
        missing = self._num_missing(held)
        if missing > len(self._free_pages):
            return False
        held.pages += [self._free_pages.pop() for _ in range(missing)]
        return True

    @staticmethod
    def _num_missing(held: _Held) -> int:
        """Pages that are missing for one more key."""
        return ceil_div(held.num_keys + 1, PAGE) - len(held.pages)

    @torch.inference_mode()
    def _write_pages(self, running: RunningAnswer, held: _Held) -> None:
        """Copy the question's keys and values into its pages."""
        pages = torch.tensor(held.pages[: ceil_div(held.num_keys, PAGE)]).to(self._pool.device)
        for side, parts in enumerate(zip(*running.state.keys_and_values(), strict=True)):
            keys = torch.stack(parts)  # (layers, kv_heads, tokens, head_dim)
            padded = keys.new_zeros(*keys.shape[:2], len(pages) * PAGE, keys.shape[3])
            padded[:, :, : keys.shape[2]] = keys
            paged = padded.view(*keys.shape[:2], len(pages), PAGE, keys.shape[3]).transpose(1, 2)
            self._pool[:, side].index_copy_(1, pages, paged)

    @torch.inference_mode()
    def _release(self, running: RunningAnswer) -> None:
        """Give the answer's pages back; its keys and values go to its state."""
        held = self._held.pop(running, None)
        if held is None:
            return
        pages = torch.tensor(held.pages[: ceil_div(held.num_keys, PAGE)]).to(self._pool.device)
        paged = self._pool[:, :, pages]  # (layers, 2, pages, kv_heads, PAGE, head_dim)
        keys = paged.transpose(2, 3).flatten(3, 4)[:, :, :, : held.num_keys]
        running.state.take_over(keys[:, 0].contiguous().unbind(), keys[:, 1].contiguous().unbind())
        self._free_pages += held.pages

    def _slot_of(self, document: DocumentCache) -> int | None:
        """The slot of a document in the table; None, with a logged reason, if it has none."""
        key = id(document)
        if key not in self._slots:
            self._slots[key] = slot = self._put(document)
            weakref.finalize(document, self._forget, key, slot)
        return self._slots[key]

    def _bytes_of(self, document: DocumentCache) -> PassBytes:
        """Bytes of passes over a document that has a slot: worked out once, as there are layers."""
        key = id(document)
        if key not in self._bytes:
            self._bytes[key] = PassBytes.of(document)
        return self._bytes[key]

    def _put(self, document: DocumentCache) -> int | None:
        slot, lookup = self._documents.free_slot(), document.lookup
        if slot is None:
            log.warning("decoding document by document: there are more than %d", SLOTS)
            self._fallbacks.count(Part.BATCH, Cause.NO_ROOM)
            return None
        if lookup.aggregation != self._aggregation:
            log.info("decoding document by document: it is looked up by %s", lookup.aggregation)
            self._fallbacks.count(Part.BATCH, Cause.UNSUPPORTED)
            return None
        try:
            layers = [resident_layer(layer, lookup) for layer in document.layers]
            positions = [layer.positions for layer in document.layers]
            profile = document.profile
            log_weights = None if profile is None else profile.log_weights(self._pool.device)
            self._documents.put(slot, document.num_tokens, layers, positions, log_weights)
        except LecternError as refusal:
            log.info("decoding document by document: %s", refusal)
            self._fallbacks.count(Part.BATCH, Cause.UNSUPPORTED)
            return None
        return slot

    def _forget(self, key: int, slot: int | None) -> None:
        self._slots.pop(key, None)
        self._bytes.pop(key, None)
        if slot is not None:
            self._documents.remove(slot)

    # -- graphs ------------------------------------------------------------------------------------

    def _make_questions(self) -> None:
        """Make and capture the graphs of prefills; where that fails, they are not used."""
        spec, is_half = self._model.spec, self._model.dtype.itemsize == 2
        if not has_kernels(spec.layers[0].head_dim) or (self._pool.is_cuda and not is_half):
            log.info("prefilling questions without graphs: heads or dtype have none")
            self._fallbacks.count(Part.PREFILL, Cause.UNSUPPORTED)
            return
        questions = QuestionGraphs(
            self._model,
            self._variant,
            self._layers,
            self._documents,
            self._aggregation,
            clusters=ceil_div(spec.context_length, CLUSTER_TOKENS),
            list_tokens=spec.context_length,
            most_questions=self.max_rows,
        )
        pools = (graph.pool for graph in self._graphs.values())
        try:
            with one_code_for_all_sizes():
                questions.prepare(next(pools, None))
        except Exception:  # whatever a compiler or a driver may raise: the other way still works
            log.warning("prefilling questions without graphs: they failed", exc_info=True)
            self._fallbacks.count(Part.PREFILL, Cause.FAILED)
            return
        self._questions = questions

    def _make_graphs(self) -> str:
        """Make graphs with the first variant of the model that works; returns its name."""
        variants = [variant for variant in VARIANTS if variant.fits(self._config)]
        for variant in variants:
            try:
                self._variant = make_variant(self._model.model, self._model.spec, variant)
                self._capture()
                return str(variant)
            except Exception:
                log.warning("decoding without %s: they failed", variant, exc_info=True)
                self._fallbacks.count(Part.KERNELS, Cause.FAILED)
                self._graphs = {}
        self._variant = self._model.model
        self._capture()
        return ""

    def _capture(self) -> None:
        buffers = Buffers()
        graphs: dict[tuple[int, int], BatchGraph] = {}
        rows_of = [rows for rows in sorted(GROUP_ROWS, reverse=True) if rows <= self.max_rows]
        for rows in rows_of:
            for group_rows in sorted(GROUP_ROWS[rows], reverse=True):
                sizes = self._sizes(rows, group_rows)
                if not sizes.is_supported() or (group_rows > 4 and sizes.tile_rows > MAX_TILE_ROWS):
                    continue
                graph = BatchGraph(
                    sizes, self._layers, self._pool, self._documents, self._aggregation, buffers
                )
                pools = (other.pool for other in graphs.values())
                graph.prepare(self._variant, next(pools, None))
                graphs[rows, group_rows] = graph
        self._graphs, self._least_sizes = graphs, graphs[min(graphs)].sizes

    def _sizes(self, rows: int, group_rows: int) -> BatchSizes:
        """What a pass of so many rows may have: documents as long as the model's context."""
        first, context = self._model.spec.layers[0], self._model.spec.context_length
        heads, pad = first.num_kv_heads, 4 * first.num_heads // first.num_kv_heads * group_rows
        most = rows * context
        return BatchSizes(
            rows=rows,
            group_rows=group_rows,
            num_heads=first.num_heads,
            kv_heads=heads,
            head_dim=first.head_dim,
            max_pages=min(ceil_div(min(context, MAX_QUESTION_TOKENS), PAGE), len(self._pool[0, 0])),
            clusters=max(
                ceil_div(context, CLUSTER_TOKENS),
                min(most // CLUSTER_TOKENS, self._work_bytes // (heads * pad)),
            ),
            # A score has two bytes, and small groups have as many places again to fill segments.
            list_tokens=max(context, min(most, self._work_bytes // (heads * pad))),
            anchor_tokens=rows * min(context, MAX_ANCHORS),
        )


def pass_cost(group_rows: int, askers: Iterable[tuple[int, int]]) -> float:
    """Estimate what a pass takes, as the tokens that groups of one row read in that time.

    Args:
        group_rows: rows of a group at most.
        askers: of each document, how many rows are about it, and its clustered tokens.
    """
    read = sum(ceil_div(count, group_rows) * num_tokens for count, num_tokens in askers)
    return read * GROUP_COST[group_rows] + PASS_COST[group_rows]


def why_unsupported(model: LoadedModel) -> str | None:
    """Say what keeps a model from decoding in batches of any documents, if anything."""
    if model.longrope is not None:
        return "its positions are turned by one of two sets of factors (LongRoPE)"
    shapes = {(layer.num_heads, layer.num_kv_heads, layer.head_dim) for layer in model.spec.layers}
    if len(shapes) > 1:
        return "its layers have heads of different numbers or widths"
    if any(layer.alibi is not None for layer in model.spec.layers):
        return "its heads have linear biases (ALiBi)"
    if len({layer.window for layer in model.spec.layers} - {None}) > 1:
        return "its sliding windows differ"
    return None


def _mass_of(running: RunningAnswer) -> AttentionMass:
    """The attention mass of an answer that is held, see `BatchRunner._hold`."""
    assert running.state.mass is not None
    return running.state.mass


def _memory_of(device: torch.device) -> int:
    """Bytes of a GPU's memory; of a CPU, as much as tests need."""
    return torch.cuda.mem_get_info(device)[1] if device.type == "cuda" else 1 << 28
