"""A pass in CUDA graphs."""

import logging
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch

CUT_LAYERS = (1, 5)  # before which a further graph begins
log = logging.getLogger("lectern.decoding")


class CapturedPass:
    """A pass in CUDA graphs that are launched one behind the other.

    A graph begins when all of it is launched, which takes the host about .6 ms for the thousand
    kernels of a pass. Behind a short first graph the host launches the rest while the device works.
    """

    def __init__(self) -> None:
        self._graphs: list[torch.cuda.CUDAGraph] = []
        self._capture: ExitStack | None = None  # of the graph that is being captured
        self._stream: torch.cuda.Stream | None = None
        self._pool: Any = None

    @property
    def is_captured(self) -> bool:
        """Whether the pass can be replayed."""
        return bool(self._graphs) and self._capture is None

    @property
    def pool(self) -> Any:
        """The memory pool of the graphs; None before they are captured."""
        return self._graphs[0].pool() if self.is_captured else None

    def capture(
        self,
        take_pass: Callable[[], None],
        pool: Any,
        warm_up: Callable[[], None] | None = None,
    ) -> None:
        """Take a pass, which compiles all, and capture it; others may use the device meanwhile.

        Args:
            take_pass: takes the pass, between tensors that stay where they are, and calls
                `cut_before` in each layer. What it changes is changed twice.
            pool: memory that the graphs share with others on the same stream; None for their own.
            warm_up: is called before the capture instead of `take_pass`, and does a part of it in
                less time. If it or the capture fails, all is done as without it.
        Raises: RuntimeError where something in the pass waits for the host.
        """
        if warm_up is not None:
            try:
                self._capture_after(warm_up, take_pass, pool)
            except Exception:
                log.info("a short warm-up was not enough to capture a pass", exc_info=True)
            else:
                return
        self._capture_after(take_pass, take_pass, pool)

    def _capture_after(
        self, warm_up: Callable[[], None], take_pass: Callable[[], None], pool: Any
    ) -> None:
        current = torch.cuda.current_stream()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(current)
        self._graphs, self._stream, self._pool = [], stream, pool
        try:
            with torch.cuda.stream(stream):
                warm_up()  # kernels are compiled, and libraries set themselves up on the stream
                with ExitStack() as self._capture:
                    self._begin_graph()
                    take_pass()
        except BaseException:
            self._graphs = []
            raise
        finally:
            self._capture = None
            torch.cuda.set_stream(current)  # a failed capture leaves its own
        current.wait_stream(stream)
        self.replay()  # the first replay brings the graphs to the device

    def cut_before(self, layer: int) -> None:
        """Begin a further graph if the pass is being captured and is to be cut before the layer.

        Work on other streams must have been joined.
        """
        if self._capture is not None and layer in CUT_LAYERS:
            self._capture.close()
            self._pool = self._graphs[0].pool()
            self._begin_graph()

    def replay(self) -> None:
        """Launch the pass as it was captured."""
        for graph in self._graphs:
            graph.replay()

    def _begin_graph(self) -> None:
        assert self._capture is not None
        graph = torch.cuda.CUDAGraph()
        self._capture.enter_context(
            torch.cuda.graph(
                graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"
            )
        )
        self._graphs.append(graph)
