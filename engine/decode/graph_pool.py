"""Decode steps of the documents that are resident, and which of them a question gets."""

import logging
import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Self

from torch import Tensor, nn

from common.errors import UnsupportedModel
from engine.attend.budget_controller import BudgetController
from engine.attend.clusters_gpu import on_gpu
from engine.attend.question import QuestionState
from engine.decode.compiled import compile_layers
from engine.decode.graph import DecodeGraph
from engine.decode.linears import with_triton_linears
from engine.document.cache import DocumentCache
from engine.model.attention import forward
from engine.model.spec import ModelSpec

GRANULE = 256  # tokens: capacities are its multiples
log = logging.getLogger("lectern.decoding")


@dataclass(frozen=True)
class DecodeConfig:
    """How questions are answered on a GPU; a CPU knows one way alone.

    Attributes:
        captured: by kernels of our own, decoding in CUDA graphs, without waiting for the host
            within a token.
        compiled: with compiled decoder layers; the first question waits for the compiler.
        own_products: linear layers of a token by a kernel of our own instead of the library's.
    """

    captured: bool = True
    compiled: bool = False
    own_products: bool = True


@dataclass(frozen=True)
class _Way:
    """What may be done to the model that steps run."""

    compiled: bool
    own_products: bool

    def fits(self, config: DecodeConfig) -> bool:
        """Whether nothing is done that is not asked for."""
        return self.compiled <= config.compiled and self.own_products <= config.own_products

    def __str__(self) -> str:
        names = {"compiled layers": self.compiled, "own products": self.own_products}
        return " and ".join(name for name, used in names.items() if used)


WAYS = (_Way(True, True), _Way(True, False), _Way(False, True))  # the first that works is taken


@dataclass(frozen=True)
class _Slot:
    """A decode step, None if there cannot be one; one question at a time holds the lock."""

    step: DecodeGraph | None
    lock: threading.Lock = field(default_factory=threading.Lock)


class DecodeGraphPool:
    """Decode steps by document and capacity; a document's go when it goes.

    Args:
        model: decodes.
        spec: its attention layers.
        config: how.

    Attributes:
        twin: what steps run instead of the model, over the same weights; None before the first
            step, and where there is nothing but the model.
    """

    def __init__(self, model: nn.Module, spec: ModelSpec, config: DecodeConfig) -> None:
        self._model = model
        self._spec = spec
        self._config = config
        self._lock = threading.Lock()  # of what follows; graphs are captured one at a time
        self._slots: dict[tuple[int, int], _Slot] = {}
        self.twin: nn.Module | None = None
        self._ways = [way for way in WAYS if way.fits(config)]

    @property
    def uses_kernels(self) -> bool:
        """Whether questions about documents on a GPU go through kernels of our own."""
        return self._config.captured

    @property
    def carried_out(self) -> DecodeConfig:
        """The configuration without what has failed so far."""
        way = self._ways[0] if self._ways else _Way(False, False)
        return replace(self._config, compiled=way.compiled, own_products=way.own_products)

    @property
    def num_steps(self) -> int:
        """Steps that are there, or known not to be."""
        return len(self._slots)

    @contextmanager
    def borrow(self, document: DocumentCache, num_tokens: int) -> Iterator[DecodeGraph | None]:
        """A document's decode step for so many tokens of question and answer, to be used alone.

        None, with a logged reason, if there is none.
        """
        if not self._config.captured or not on_gpu(document):
            yield None
            return
        slot = self._slot(document, -(-num_tokens // GRANULE) * GRANULE)
        if not slot.lock.acquire(blocking=False):
            log.info("another question is decoding on this document: decoding without a graph")
            yield None
            return
        try:
            yield slot.step
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
        """Make a step, warm it up and capture it; what fails is logged, and gone without."""
        try:
            step = self._warm_step(document, capacity)
        except UnsupportedModel as refusal:
            log.warning("decoding without kernels: %s", refusal)
            return None
        except Exception:  # whatever a compiler or a driver may raise: the other way still works
            log.warning("decoding without kernels: a pass failed", exc_info=True)
            return None
        steps = [slot.step for slot in list(self._slots.values())]  # one may go at any time
        pools = (other.pool for other in steps if other is not None and other.pool is not None)
        try:
            step.capture(next(pools, None))  # a pool goes with the last of its graphs
        except Exception:
            log.warning("decoding without a graph: a pass cannot be captured", exc_info=True)
        return step

    def _warm_step(self, document: DocumentCache, capacity: int) -> DecodeGraph:
        step = DecodeGraph(self._spec, document, capacity)
        while self._ways:
            try:
                if self.twin is None:
                    self.twin = self._make_twin(self._ways[0])
                step.warm_up(self.twin)
                return step
            except Exception:
                log.warning("decoding without %s: they failed", self._ways[0], exc_info=True)
                self.twin = None
                del self._ways[0]
        step.warm_up(self._model)
        return step

    def _make_twin(self, way: _Way) -> nn.Module:
        model = self._model
        if way.own_products:
            model = with_triton_linears(model)
        return compile_layers(model, self._spec.num_layers) if way.compiled else model


class DecodeSession:
    """The decoding passes of one question: with a borrowed step, or without.

    A context manager: when it ends, attention mass is where the question's state wants it.

    Args:
        model: runs the passes of a question without a step.
        state: the question, after its prefill when the first pass is taken.
        num_tokens: that question and answer have at most.
    """

    def __init__(
        self, decoders: DecodeGraphPool, model: nn.Module, state: QuestionState, num_tokens: int
    ) -> None:
        self._decoders = decoders
        self._model = model
        self._state = state
        self._num_tokens = num_tokens
        self._borrowed = ExitStack()
        self._step: DecodeGraph | None = None
        self._begun = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._borrowed:
            if self._step is not None and self._state.mass is not None:
                self._state.mass.add_places(self._step.mass)

    def logits(self, token: Tensor) -> Tensor:
        """Take a pass with `token` (1,); returns logits (vocabulary,) fp32, until the next pass."""
        governor = self._state.decode
        if not self._begun and isinstance(governor, BudgetController):
            borrowed = self._decoders.borrow(self._state.document, self._num_tokens)
            self._step = self._borrowed.enter_context(borrowed)
            if self._step is not None:
                self._step.begin(self._state)
        self._begun = True
        if self._step is None or not isinstance(governor, BudgetController):
            return forward(self._model, token, self._state.position, self._state)[-1]
        return self._step.run(token, governor.next_thresholds(), self._state.meter)
