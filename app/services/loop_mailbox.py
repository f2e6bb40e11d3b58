"""Items that other threads bring into an event loop, which wakes up once for many of them."""

import asyncio
from collections import deque
from contextlib import suppress
from typing import Any


class LoopMailbox:
    """Puts items into queues of an event loop from any thread.

    Waking a loop is a system call, at which a thread lets go of the interpreter. A step of the
    engine has an item for each of its questions, so it would do so many times.

    Args:
        loop: the event loop of all queues that items are for.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._items: deque[tuple[asyncio.Queue[Any], Any]] = deque()
        self._is_waking = False  # set after an item was added, cleared before items are taken

    def put(self, queue: "asyncio.Queue[Any]", item: Any) -> None:
        """Put an item into a queue of the loop soon; if the loop is closed, nobody waits for it."""
        self._items.append((queue, item))
        if not self._is_waking:
            self._is_waking = True
            with suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._is_waking = False
        while self._items:
            queue, item = self._items.popleft()
            queue.put_nowait(item)
