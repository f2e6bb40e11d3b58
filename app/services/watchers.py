"""Threads that wait at the bell for callers who follow documents."""

from collections.abc import Iterator
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from common.errors import Busy

MAX_WATCHERS = 200
Event = TypeVar("Event")


class Watchers:
    """A bounded number of threads, kept apart from those that answer requests."""

    def __init__(self, most: int = MAX_WATCHERS) -> None:
        self._threads = CapacityLimiter(most)

    def check(self) -> None:
        """Refuse one caller too many. Raises: Busy."""
        if self._threads.available_tokens < 1:
            raise Busy("Too many callers follow documents; look at the document itself instead.")

    async def next(self, events: Iterator[Event]) -> Event | None:
        """Wait for the next event, None at the end; a caller who leaves is not held up."""
        return await to_thread.run_sync(
            next, events, None, limiter=self._threads, abandon_on_cancel=True
        )
