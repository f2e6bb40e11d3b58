"""The queue of questions: bounded, worked on by a few threads, and cancellable throughout."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from app.services.running_mean import RunningMean
from common.errors import (
    CallerGone,
    LecternError,
    QuestionTimeout,
    ShuttingDown,
    TooManyQuestions,
)

Item = TypeVar("Item")
Work = Callable[["PendingAnswer[Any]"], Iterator[Item]]
STUCK_S = 30.0
UNMEASURED_S = 2.0
STOPPED = "The server stopped before the answer was complete."


class _End:
    """Marks the end of an answer's items."""


class PendingAnswer(Generic[Item]):
    """The answer of one accepted question: its items as they come, and the means to stop it.

    It is made on the event loop, and iterated there once. The work is done on a queue's thread.

    Args:
        document_id: the document that is asked about.
        work: yields the answer's items; it is called on a thread.
        timeout_s: seconds from now to the last item.
    """

    def __init__(self, document_id: Hashable, work: Work[Item], timeout_s: float) -> None:
        self.document_id = document_id
        self._work = work
        self._accepted_s = time.monotonic()
        self._timeout_s = timeout_s
        self._started_s: float | None = None
        self._stop_error: LecternError | None = None
        self._loop = asyncio.get_running_loop()
        self._items: asyncio.Queue[Item | Exception | type[_End]] = asyncio.Queue()
        self._first: Item | Exception | type[_End] | None = None

    @property
    def queue_ms(self) -> float:
        """Milliseconds that the question waited for a thread, until now if it still waits."""
        return 1000 * ((self._started_s or time.monotonic()) - self._accepted_s)

    def running_s(self) -> float:
        """Return the seconds since a thread took the question; 0 before that."""
        return 0.0 if self._started_s is None else time.monotonic() - self._started_s

    def is_cancelled(self) -> bool:
        """Return whether the work must stop; the engine asks before every forward pass."""
        return self._stop_error is not None or self._remaining_s() <= 0

    def cancel(self, error: LecternError | None = None) -> None:
        """Stop the work. The first call decides which error a caller that still waits gets."""
        if self._stop_error is None:
            self._stop_error = error or CallerGone("The caller has closed the connection.")
            self._emit(self._stop_error)

    def run(self) -> None:
        """Do the work on this thread, and pass on its items, then its error or its end."""
        self._started_s = time.monotonic()
        try:
            if not self.is_cancelled():
                for item in self._work(self):
                    self._emit(item)
            self._emit(self._stop_error or _End)
        except CallerGone as error:  # the engine stopped, since this answer was cancelled
            self._emit(self._stop_error or error)
        except Exception as error:
            self._emit(error)

    async def wait_for_first_item(self, wait_s: float) -> None:
        """Wait for the first item, so that an error before it can still become an HTTP status.

        Args:
            wait_s: longest wait in seconds.
        Raises: the error that stopped the work before its first item.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                self._first = await self._next()
        if isinstance(self._first, Exception):
            raise self._first

    async def __aiter__(self) -> AsyncIterator[Item]:
        """Yield the items. Raises: the error that stopped the work, or QuestionTimeout."""
        while True:
            item, self._first = self._first or await self._next(), None
            if item is _End:
                return
            if isinstance(item, Exception):
                raise item
            yield item  # type: ignore[misc]  # the other types were handled above

    async def _next(self) -> Item | Exception | type[_End]:
        try:
            async with asyncio.timeout(max(0.0, self._remaining_s())):
                return await self._items.get()
        except TimeoutError:
            self.cancel(QuestionTimeout(f"No answer within {self._timeout_s:g} seconds."))
            return self._stop_error or _End

    def _remaining_s(self) -> float:
        return self._accepted_s + self._timeout_s - time.monotonic()

    def _emit(self, item: Item | Exception | type[_End]) -> None:
        with suppress(RuntimeError):  # the event loop is closed, so nobody waits any more
            self._loop.call_soon_threadsafe(self._items.put_nowait, item)


@dataclass(frozen=True)
class QueueLoad:
    """How many questions are being answered, how many wait, and how many threads there are."""

    running: int
    waiting: int
    threads: int


class QuestionQueue:
    """Answers questions on a few threads.

    Args:
        threads: how many questions are answered at the same time.
        queued: how many more questions may wait; further ones are refused.
        timeout_s: seconds from the acceptance of a question to the last item of its answer.
    """

    def __init__(self, *, threads: int, queued: int, timeout_s: float) -> None:
        self._num_threads = threads
        self._queued = queued
        self._timeout_s = timeout_s
        self._changed = threading.Condition()
        self._waiting: deque[PendingAnswer[Any]] = deque()
        self._running: set[PendingAnswer[Any]] = set()
        self._threads: list[threading.Thread] = []
        self._running_time = RunningMean()
        self._draining_since_s: float | None = None
        self._is_closed = False

    def start(self) -> None:
        """Start the threads."""
        for number in range(self._num_threads):
            thread = threading.Thread(target=self._serve, name=f"question-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def submit(self, document_id: Hashable, work: Work[Item]) -> PendingAnswer[Item]:
        """Accept a question, whose work starts as soon as a thread is free.

        Args:
            document_id: the document that is asked about.
            work: yields the answer's items; it is called on a thread.
        Raises: TooManyQuestions if the queue is full, ShuttingDown while the server stops.
        """
        with self._changed:
            if self.is_draining:
                raise ShuttingDown("The server is stopping; ask again in a moment.")
            if len(self._waiting) + len(self._running) >= self._num_threads + self._queued:
                raise TooManyQuestions(
                    "Too many questions are waiting; ask again in a moment.",
                    retry_after_s=self._next_place_s(),
                )
            pending = PendingAnswer(document_id, work, self._timeout_s)
            self._waiting.append(pending)
            self._changed.notify()
            return pending

    def cancel(self, pending: PendingAnswer[Any], error: LecternError | None = None) -> None:
        """Stop one question; if it waits, it leaves the queue at once.

        Args:
            error: what a caller that still waits gets.
        """
        pending.cancel(error)
        with self._changed, suppress(ValueError):
            self._waiting.remove(pending)

    def cancel_document(self, document_id: Hashable, error: LecternError) -> None:
        """Stop all questions about a document; their callers get `error`."""
        for pending in self._all_pending():
            if pending.document_id == document_id:
                self.cancel(pending, error)

    def cancel_all(self) -> None:
        """Stop all questions; their callers are told that the server stops."""
        self.drain()
        for pending in self._all_pending():
            self.cancel(pending, ShuttingDown(STOPPED))

    def load(self) -> QueueLoad:
        """Count the questions that are being answered and those that wait."""
        with self._changed:
            return QueueLoad(len(self._running), len(self._waiting), self._num_threads)

    def is_healthy(self) -> bool:
        """Return whether all threads live, and none works on a question that is long overdue."""
        with self._changed:
            is_stuck = any(p.running_s() > self._timeout_s + STUCK_S for p in self._running)
        alive = [thread.is_alive() for thread in self._threads]
        return len(alive) == self._num_threads and all(alive) and not is_stuck

    def drain(self) -> None:
        """Refuse new questions, and go on with accepted ones. A signal handler may call this."""
        if self._draining_since_s is None:
            self._draining_since_s = time.monotonic()

    @property
    def is_draining(self) -> bool:
        """Whether the server is stopping."""
        return self._draining_since_s is not None

    def draining_s(self) -> float:
        """Return for how many seconds the server has been stopping; 0 if it is not."""
        since_s = self._draining_since_s
        return 0.0 if since_s is None else time.monotonic() - since_s

    def close(self, grace_s: float) -> None:
        """Stop the threads: waiting questions end at once, running ones get some time.

        Args:
            grace_s: seconds that running questions get.
        """
        self.drain()
        with self._changed:
            for pending in self._waiting:
                pending.cancel(ShuttingDown(STOPPED))
            self._waiting.clear()
            self._is_closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._running, timeout=grace_s)
        self.cancel_all()
        for thread in self._threads:
            thread.join(timeout=2.0)  # threads are daemons, so a stuck one cannot prevent the exit

    def _all_pending(self) -> tuple[PendingAnswer[Any], ...]:
        with self._changed:
            return (*self._waiting, *self._running)

    def _serve(self) -> None:
        while (pending := self._take()) is not None:
            try:
                pending.run()
            finally:
                self._finish(pending)

    def _take(self) -> PendingAnswer[Any] | None:
        """Wait for the next question; None once the queue is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            if self._is_closed:
                return None
            pending = self._waiting.popleft()
            self._running.add(pending)
            return pending

    def _finish(self, pending: PendingAnswer[Any]) -> None:
        with self._changed:
            self._running.discard(pending)
            self._running_time.add(pending.running_s())
            self._changed.notify_all()

    def _next_place_s(self) -> float:
        """Estimate the seconds until the queue has a place again, from what questions took so far.

        The question that has run longest ends first, or else the one after it.
        """
        longest_s = max((pending.running_s() for pending in self._running), default=0.0)
        mean_s = self._running_time.seconds
        if mean_s is None:
            return max(UNMEASURED_S, longest_s)
        return max(mean_s - longest_s, mean_s / self._num_threads)
