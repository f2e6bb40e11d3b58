"""Threads that wait for changes of documents, for the callers that follow them."""

from collections.abc import Iterator
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from common.errors import Busy

MAX_WATCHERS = 200
State = TypeVar("State")


class WatcherThreads:
    """A bounded number of threads, separate from those that answer requests.

    Args:
        max_threads: how many callers can wait at the same time.
    """

    def __init__(self, max_threads: int = MAX_WATCHERS) -> None:
        self._threads = CapacityLimiter(max_threads)

    def check_free(self) -> None:
        """Return if a thread is free. Raises: Busy."""
        if self._threads.available_tokens < 1:
            raise Busy("Too many callers follow documents; look at the document itself instead.")

    async def next_state(self, states: Iterator[State]) -> State | None:
        """Wait on a thread for the next item of a blocking iterator.

        If the caller's task is cancelled, this returns at once and the thread ends by itself.

        Returns: the item, or None at the end of the iterator.
        """
        return await to_thread.run_sync(
            next, states, None, limiter=self._threads, abandon_on_cancel=True
        )
