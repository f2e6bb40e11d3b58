"""How a document is read where questions are answered meanwhile: piece by piece, and in turns."""

import time
from collections import deque
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import torch

from engine.document.cache import DocumentCache
from engine.turns import DeviceTurns

MOST_AHEAD = 1  # pieces that the GPU need not have begun when the host goes on to the next
TURN_S = 0.006  # so long reading goes on, though an answer waits; the last piece comes on top
HOST_EVERY_S = 0.1
BUSY_CHUNK_TOKENS = 2048  # of prefill at a time, while questions are answered
# On a CPU, while questions are answered: how long reading rests behind a piece, times the piece,
# and in seconds at most; so it goes on with a quarter of its speed at least.
CPU_REST = 3.0
MOST_CPU_REST_S = 1.0
LOOK_EVERY_S = 0.02


class ReadingPace:
    """Reading's turns on a device; a context manager, within which the document is read.

    On a GPU the work has a stream of its own. It is launched in pieces of some milliseconds, of
    which few are under way at any time; between two of them an answer that waits takes its turn.
    On a CPU, which does both at the same time, reading rests between pieces while questions are
    answered, so that these have the cores to themselves most of the time.

    Args:
        turns: of the answers in this process; None if none are given here.
    """

    def __init__(self, device: torch.device, turns: DeviceTurns | None = None) -> None:
        self._turns = turns or DeviceTurns()
        self._stream: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._ahead: deque[torch.cuda.Event] = deque()
        self._has_turn = False
        self._began_s = self._host_s = time.monotonic()
        self._within = ExitStack()

    def __enter__(self) -> Self:
        self._within.enter_context(self._turns.reading_document())
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.default_stream(self._stream.device))
            self._within.enter_context(torch.cuda.stream(self._stream))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.rest()
        finally:
            self._within.close()

    def next_piece(self) -> None:
        """Begin a piece of work; what was launched before it is another piece."""
        if self._stream is None:
            self._rest_on_cpu()
            return
        if self._has_turn:
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record(self._stream)
            self._ahead.append(event)
            if len(self._ahead) > MOST_AHEAD:
                self._ahead.popleft().synchronize()
            if not self._turns.is_wanted or time.monotonic() - self._began_s < TURN_S:
                return
        self.rest()
        self._turns.begin_reading()
        self._has_turn, self._began_s = True, time.monotonic()

    def is_host_due(self) -> bool:
        """Whether it is time for the host's own work, which may take a while.

        On a GPU that is so a few times a second; answers have the device meanwhile, if there are
        any. On a CPU it always is.
        """
        if self._stream is None:
            return True
        now_s = time.monotonic()
        if now_s - self._host_s < HOST_EVERY_S:
            return False
        self._host_s = now_s
        if self._turns.has_answers or self._turns.is_wanted:
            self.rest()
        return True

    def rest(self) -> None:
        """End the present piece, and leave the device to others until the next one."""
        if self._stream is None or not self._has_turn:
            return
        try:
            self._stream.synchronize()
        finally:
            self._ahead.clear()
            self._has_turn = False
            self._turns.end_reading()

    def chunk_tokens(self, most: int) -> int:
        """Tokens of prefill to take at a time, at most `most`."""
        is_shared = self._stream is not None and self._turns.has_answers
        return min(most, BUSY_CHUNK_TOKENS) if is_shared else most

    def _rest_on_cpu(self) -> None:
        """Rest behind a piece that a CPU has done, as long as questions are answered."""
        now_s = time.monotonic()
        until_s = now_s + min(MOST_CPU_REST_S, CPU_REST * (now_s - self._began_s))
        while self._turns.has_answers and time.monotonic() < until_s:
            time.sleep(LOOK_EVERY_S)
        self._began_s = time.monotonic()

    def share(self, document: DocumentCache) -> None:
        """Let other streams use a document that was read here: its memory outlives their work."""
        if self._stream is None:
            return
        others = torch.cuda.default_stream(self._stream.device)
        for layer in document.layers:
            for tensor in layer.tensors():
                if tensor.is_cuda:
                    tensor.record_stream(others)
