"""Threads that wait for changes of documents, for the callers that follow them."""

from collections.abc import Iterator
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

State = TypeVar("State")


class WatcherThreads:
    """A bounded number of threads, separate from those that answer requests.

    Args:
        max_threads: how many callers can wait at the same time.
    """

    def __init__(self, max_threads: int) -> None:
        self._threads = CapacityLimiter(max_threads)

    async def next_state(self, states: Iterator[State]) -> State | None:
        """Wait on a thread for the next item of a blocking iterator.

        If the caller's task is cancelled, this returns at once and the thread ends by itself.

        Returns: the item, or None at the end of the iterator.
        """
        return await to_thread.run_sync(
            next, states, None, limiter=self._threads, abandon_on_cancel=True
        )
