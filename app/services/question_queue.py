"""The question desk: a bounded queue before a few threads, all of it cancellable."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from common.errors import (
    Cancelled,
    LecternError,
    QuestionTimeout,
    ShuttingDown,
    TooManyQuestions,
)

Item = TypeVar("Item")
Work = Callable[["Ticket[Any]"], Iterator[Item]]
STUCK_S = 30.0


class _End:
    """Marks the end of a ticket's items."""


class Ticket(Generic[Item]):
    """One accepted question: its items on the way to the caller, and the means to stop it.

    Made on the event loop, worked on by a desk thread. Iterate it once, on the loop.
    """

    def __init__(self, topic: object, work: Work[Item], timeout_s: float) -> None:
        self.topic = topic
        self._work = work
        self._made_s = time.monotonic()
        self._timeout_s = timeout_s
        self._begun_s: float | None = None
        self._stop: LecternError | None = None
        self._loop = asyncio.get_running_loop()
        self._items: asyncio.Queue[Item | Exception | type[_End]] = asyncio.Queue()
        self._first: Item | Exception | type[_End] | None = None

    @property
    def queue_ms(self) -> float:
        """Milliseconds that the question waited for a thread, so far or in all."""
        return 1000 * ((self._begun_s or time.monotonic()) - self._made_s)

    def running_s(self) -> float:
        """Seconds since a thread took the question; 0 before."""
        return 0.0 if self._begun_s is None else time.monotonic() - self._begun_s

    def cancelled(self) -> bool:
        """Tell the engine, which asks between steps, whether to stop."""
        return self._stop is not None or self._left_s() <= 0

    def cancel(self, error: LecternError | None = None) -> None:
        """Stop the work; the caller, if still there, gets `error`. The first reason counts."""
        if self._stop is None:
            self._stop = error or Cancelled("The caller went away.")
            self._emit(self._stop)

    def run(self) -> None:
        """Do the work on this thread and hand over its items, then its error or its end."""
        self._begun_s = time.monotonic()
        try:
            if not self.cancelled():
                for item in self._work(self):
                    self._emit(item)
            self._emit(self._stop or _End)
        except Cancelled as error:
            self._emit(self._stop or error)
        except Exception as error:
            self._emit(error)

    async def settle(self, wait_s: float) -> None:
        """Wait up to `wait_s` for the first item, so that an early refusal is still a status.

        Raises: what stopped the work before its first item.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                self._first = await self._next()
        if isinstance(self._first, Exception):
            raise self._first

    async def __aiter__(self) -> AsyncIterator[Item]:
        """Yield the items; raise what stopped the work, or QuestionTimeout."""
        while True:
            item, self._first = self._first or await self._next(), None
            if item is _End:
                return
            if isinstance(item, Exception):
                raise item
            yield item  # type: ignore[misc]  # only items are left

    async def _next(self) -> Item | Exception | type[_End]:
        try:
            async with asyncio.timeout(max(0.0, self._left_s())):
                return await self._items.get()
        except TimeoutError:
            self.cancel(QuestionTimeout(f"No answer within {self._timeout_s:g} seconds."))
            return self._stop or _End

    def _left_s(self) -> float:
        return self._made_s + self._timeout_s - time.monotonic()

    def _emit(self, item: Item | Exception | type[_End]) -> None:
        with suppress(RuntimeError):  # the loop is gone: nobody listens any more
            self._loop.call_soon_threadsafe(self._items.put_nowait, item)


@dataclass(frozen=True)
class DeskLoad:
    """How busy the desk is."""

    running: int
    waiting: int
    threads: int


class QuestionDesk:
    """Runs questions on `threads` threads; `queued` more may wait, the next one is refused.

    Args:
        timeout_s: longest time from acceptance to the last item.
    """

    def __init__(self, *, threads: int, queued: int, timeout_s: float) -> None:
        self._num_threads = threads
        self._queued = queued
        self._timeout_s = timeout_s
        self._changed = threading.Condition()
        self._waiting: deque[Ticket[Any]] = deque()
        self._running: set[Ticket[Any]] = set()
        self._threads: list[threading.Thread] = []
        self._draining = False
        self._closed = False

    def start(self) -> None:
        """Start the threads."""
        for number in range(self._num_threads):
            thread = threading.Thread(target=self._serve, name=f"question-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def submit(self, topic: object, work: Work[Item]) -> Ticket[Item]:
        """Accept a question about `topic` (a document id), to be run as soon as a thread is free.

        Raises: TooManyQuestions if the queue is full, ShuttingDown while the server stops.
        """
        with self._changed:
            if self._draining:
                raise ShuttingDown("The server is stopping; ask again in a moment.")
            if len(self._waiting) + len(self._running) >= self._num_threads + self._queued:
                raise TooManyQuestions("Too many questions are waiting; ask again in a moment.")
            ticket = Ticket(topic, work, self._timeout_s)
            self._waiting.append(ticket)
            self._changed.notify()
            return ticket

    def cancel(self, ticket: Ticket[Any], error: LecternError | None = None) -> None:
        """Stop one question; a waiting one leaves the queue at once."""
        ticket.cancel(error)
        with self._changed, suppress(ValueError):
            self._waiting.remove(ticket)

    def cancel_topic(self, topic: object, error: LecternError) -> None:
        """Stop every question about `topic`, say a deleted document, with `error`."""
        with self._changed:
            tickets = (*self._waiting, *self._running)
        for ticket in tickets:
            if ticket.topic == topic:
                self.cancel(ticket, error)

    def load(self) -> DeskLoad:
        """Count what runs and what waits."""
        with self._changed:
            return DeskLoad(len(self._running), len(self._waiting), self._num_threads)

    def healthy(self) -> bool:
        """Tell whether every thread lives and none is stuck in a question that should be over."""
        with self._changed:
            overdue = any(t.running_s() > self._timeout_s + STUCK_S for t in self._running)
        alive = [thread.is_alive() for thread in self._threads]
        return len(alive) == self._num_threads and all(alive) and not overdue

    def drain(self) -> None:
        """Refuse new questions; waiting and running ones go on. Callable from a signal handler."""
        self._draining = True

    @property
    def draining(self) -> bool:
        """Whether the server is stopping."""
        return self._draining

    def abandon(self) -> None:
        """Stop every question; their callers are told that the server stops."""
        self.drain()
        with self._changed:
            tickets = (*self._waiting, *self._running)
        for ticket in tickets:
            self.cancel(ticket, _stopping())

    def close(self, grace_s: float) -> None:
        """Stop: waiting questions end at once, running ones get `grace_s` seconds."""
        self.drain()
        with self._changed:
            for ticket in self._waiting:
                ticket.cancel(_stopping())
            self._waiting.clear()
            self._closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._running, timeout=grace_s)
        self.abandon()
        for thread in self._threads:
            thread.join(timeout=2.0)  # daemons: an engine that will not stop cannot hold the exit

    def _serve(self) -> None:
        while (ticket := self._take()) is not None:
            try:
                ticket.run()
            finally:
                self._put_back(ticket)

    def _take(self) -> Ticket[Any] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if self._closed:
                return None
            ticket = self._waiting.popleft()
            self._running.add(ticket)
            return ticket

    def _put_back(self, ticket: Ticket[Any]) -> None:
        with self._changed:
            self._running.discard(ticket)
            self._changed.notify_all()


def _stopping() -> ShuttingDown:
    return ShuttingDown("The server stopped before the answer was complete.")
