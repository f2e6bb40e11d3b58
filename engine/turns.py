"""Turns on a GPU between questions, which are answered token by token, and documents being read.

Kernels of both at the same time would make a token wait behind hundreds of kernels of a document.
So the two take turns: a forward pass of an answer, a piece of a document, and so on. Each waits for
the other once, and a piece is short.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

RECENTLY_S = 0.5


class DeviceTurns:
    """Turns in the order in which they are asked for.

    Turns of answers that follow each other may be taken at the same time; a reader has its own
    alone. Where nobody answers, reading takes one turn after the other without waiting.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()
        self._num_answering = 0
        self._is_reading = False
        self._num_readings = 0
        self._answered_s = -RECENTLY_S

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Take a turn for a forward pass of answers, while the block runs."""
        with self._changed:
            self._wait(lambda: not self._is_reading)
            self._num_answering += 1
        try:
            yield
        finally:
            with self._changed:
                self._num_answering -= 1
                self._answered_s = time.monotonic()
                self._changed.notify_all()

    @contextmanager
    def reading_document(self) -> Iterator[None]:
        """Note that a document is being read while the block runs, in whatever turns."""
        with self._changed:
            self._num_readings += 1
        try:
            yield
        finally:
            with self._changed:
                self._num_readings -= 1

    def begin_reading(self) -> None:
        """Take a turn for a piece of a document; it ends by `end_reading`."""
        with self._changed:
            self._wait(lambda: not self._is_reading and self._num_answering == 0)
            self._is_reading = True

    def end_reading(self) -> None:
        """End the turn of `begin_reading`; the GPU must have done the piece's work."""
        with self._changed:
            self._is_reading = False
            self._changed.notify_all()

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits for a turn."""
        return bool(self._waiting)

    @property
    def has_answers(self) -> bool:
        """Whether a question is being answered, or was half a second ago."""
        return self._num_answering > 0 or time.monotonic() - self._answered_s < RECENTLY_S

    @property
    def is_reading_document(self) -> bool:
        """Whether a document is being read."""
        return self._num_readings > 0

    def _wait(self, is_free: Callable[[], bool]) -> None:
        """Wait for one's place in the order, and until the device is free; holds the lock."""
        ticket = object()
        self._waiting.append(ticket)
        try:
            self._changed.wait_for(lambda: self._waiting[0] is ticket and is_free())
        finally:
            self._waiting.remove(ticket)
            self._changed.notify_all()
