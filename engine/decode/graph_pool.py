"""The decode graphs of the documents that are resident on a GPU, and which one a question gets."""

import logging
import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from torch import Tensor, nn

from common.errors import UnsupportedModel
from engine.attend.clusters_gpu import on_gpu
from engine.attend.question import QuestionState
from engine.config import DecodeConfig
from engine.decode.graph import DecodeGraph
from engine.decode.model_variants import compile_layers, with_triton_linears
from engine.document.cache import DocumentCache
from engine.fallbacks import Cause, Fallbacks, Part
from engine.model.attention import forward
from engine.model.spec import ModelSpec

CAPACITY_STEP = 256  # tokens: capacities of graphs are its multiples
log = logging.getLogger("lectern.decoding")


@dataclass(frozen=True)
class Variant:
    """What may be changed in the model that graphs run."""

    compiled_layers: bool
    triton_linears: bool

    def fits(self, config: DecodeConfig) -> bool:
        """Whether it changes nothing that the configuration does not ask for."""
        return (
            self.compiled_layers <= bool(config.compiled_layers)
            and self.triton_linears <= config.triton_linears
        )

    def __str__(self) -> str:
        names = {"compiled layers": self.compiled_layers, "Triton linears": self.triton_linears}
        return " and ".join(name for name, used in names.items() if used)


# The first one that works is taken; behind the last one stands the model as it is.
VARIANTS = (Variant(True, True), Variant(True, False), Variant(False, True))


@dataclass(frozen=True)
class _Slot:
    """A decode graph, None if there cannot be one; one question at a time holds the lock."""

    graph: DecodeGraph | None
    lock: threading.Lock = field(default_factory=threading.Lock)


class DecodeGraphPool:
    """Decode graphs by document and capacity; a document's graphs go when the document goes.

    Args:
        model: the model that decodes.
        spec: its attention layers.
        config: what may be used on a GPU.
        fallbacks: where it is counted what cannot be used; None for nowhere that anybody looks.

    Attributes:
        variant: the model that graphs run, over the weights of `model`; None before the first
            graph, and where graphs run `model` as it is.
    """

    def __init__(
        self,
        model: nn.Module,
        spec: ModelSpec,
        config: DecodeConfig,
        fallbacks: Fallbacks | None = None,
    ) -> None:
        self._model = model
        self._spec = spec
        self._config = config
        self._fallbacks = fallbacks or Fallbacks()
        self._lock = threading.Lock()  # of all below; graphs are captured one at a time
        self._slots: dict[tuple[int, int], _Slot] = {}
        self.variant: nn.Module | None = None
        self._variants = [variant for variant in VARIANTS if variant.fits(config)]

    @property
    def uses_kernels(self) -> bool:
        """Whether questions about documents on a GPU go through Triton kernels."""
        return self._config.triton_kernels

    @property
    def effective_config(self) -> DecodeConfig:
        """The configuration without what has failed so far."""
        variant = self._variants[0] if self._variants else Variant(False, False)
        return replace(
            self._config,
            compiled_layers=variant.compiled_layers,
            triton_linears=variant.triton_linears,
        )

    @property
    def num_graphs(self) -> int:
        """Graphs that are there, or known to be impossible."""
        return len(self._slots)

    def clear(self) -> None:
        """Forget all graphs and the variant of the model."""
        with self._lock:
            self._slots.clear()
            self.variant = None

    @contextmanager
    def acquire(self, document: DocumentCache, num_tokens: int) -> Iterator[DecodeGraph | None]:
        """Hold a document's decode graph alone while the block runs.

        Args:
            num_tokens: tokens of question and answer together.
        Returns: the graph; None, with a logged reason, if there is none or it is in use.
        """
        if not self._config.triton_kernels or not on_gpu(document):
            yield None
            return
        slot = self._slot(document, -(-num_tokens // CAPACITY_STEP) * CAPACITY_STEP)
        if not slot.lock.acquire(blocking=False):
            log.info("another question is decoding on this document: decoding without a graph")
            self._fallbacks.count(Part.GRAPH, Cause.IN_USE)
            yield None
            return
        try:
            yield slot.graph
        finally:
            slot.lock.release()

    def _slot(self, document: DocumentCache, capacity: int) -> _Slot:
        key = (id(document), capacity)
        with self._lock:
            if key not in self._slots:
                self._slots[key] = _Slot(self._make(document, capacity))
                weakref.finalize(document, self._slots.pop, key, None)
            return self._slots[key]

    def _make(self, document: DocumentCache, capacity: int) -> DecodeGraph | None:
        """Make a graph, warm it up and capture it; a failure is logged and leaves None."""
        try:
            graph = self._make_warm(document, capacity)
        except UnsupportedModel as refusal:
            log.warning("decoding without kernels: %s", refusal)
            self._fallbacks.count(Part.KERNELS, Cause.UNSUPPORTED)
            return None
        except Exception:  # whatever a compiler or a driver may raise: plain torch still works
            log.warning("decoding without kernels: a pass failed", exc_info=True)
            self._fallbacks.count(Part.KERNELS, Cause.FAILED)
            return None
        graphs = [slot.graph for slot in list(self._slots.values())]  # one may go at any time
        pools = (other.pool for other in graphs if other is not None and other.pool is not None)
        try:
            graph.capture(next(pools, None))  # a memory pool goes with the last of its graphs
        except Exception:
            log.warning("decoding without a graph: a pass cannot be captured", exc_info=True)
            self._fallbacks.count(Part.GRAPH, Cause.FAILED)
        return graph

    def _make_warm(self, document: DocumentCache, capacity: int) -> DecodeGraph:
        """Make a graph with the first variant of the model that works, and warm it up."""
        graph = DecodeGraph(self._spec, document, capacity)
        while self._variants:
            try:
                if self.variant is None:
                    self.variant = make_variant(self._model, self._spec, self._variants[0])
                graph.warm_up(self.variant)
                return graph
            except Exception:
                log.warning("decoding without %s: they failed", self._variants[0], exc_info=True)
                self._fallbacks.count(Part.KERNELS, Cause.FAILED)
                self.variant = None
                del self._variants[0]
        graph.warm_up(self._model)
        return graph


def make_variant(model: nn.Module, spec: ModelSpec, variant: Variant) -> nn.Module:
    """Make a variant of a model, over the same weights."""
    if variant.triton_linears:
        model = with_triton_linears(model)
    return compile_layers(model, spec.num_layers) if variant.compiled_layers else model


class DecodeSession:
    """The decoding passes of one question: with a graph of the pool, or without.

    Args:
        model: runs the passes of a question without a graph.
        state: the question, after its prefill when the first pass is taken.
        num_tokens: tokens that question and answer have together at most.
    """

    def __init__(
        self, graphs: DecodeGraphPool, model: nn.Module, state: QuestionState, num_tokens: int
    ) -> None:
        self._graphs = graphs
        self._model = model
        self._state = state
        self._num_tokens = num_tokens
        self._acquired = ExitStack()
        self._graph: DecodeGraph | None = None
        self._begun = False

    def close(self) -> None:
        """Give the graph back, and take over the attention mass that it collected."""
        with self._acquired:
            if self._graph is not None and self._state.mass is not None:
                self._state.mass.add_places(self._graph.mass)

    def collect_evidence(self) -> None:
        """Take over the attention mass that the graph has collected for this question so far."""
        if self._graph is not None and self._state.mass is not None:
            self._state.mass.add_places(self._graph.mass)
            self._graph.mass.zero_()

    def forget_evidence(self) -> None:
        """Drop the attention mass that the graph has collected for this question so far."""
        if self._graph is not None:
            self._graph.mass.zero_()

    def take_graph(self) -> bool:
        """Take the document's graph after the prefill; whether there is one for this question."""
        if not self._begun and self._state.controller is not None:
            acquired = self._graphs.acquire(self._state.document, self._num_tokens)
            self._graph = self._acquired.enter_context(acquired)
            if self._graph is not None:
                self._graph.begin(self._state.keys_and_values())
        self._begun = True
        return self._graph is not None

    def logits(self, token: Tensor) -> Tensor:
        """Take a pass with `token` (1,) int64.

        Returns: logits (vocabulary,) fp32, which hold until the next pass.
        """
        self.take_graph()
        controller = self._state.controller
        if self._graph is None or controller is None:
            return forward(self._model, token, self._state.position, self._state)[-1]
        return self._graph.run(token, controller.next_thresholds(), self._state.meter)
