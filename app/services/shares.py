"""Places that API keys take for a while, of which no key can take all."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from app.services.running_mean import RunningMean
from common.errors import Busy, TooManyRequests

UNMEASURED_S = 2.0


class Shares:
    """A number of places, and how many of them one key may have.

    Args:
        what: what takes a place, in the plural, for messages.
        total: places of all keys together.
        per_key: places of one key.
    """

    def __init__(self, what: str, *, total: int, per_key: int) -> None:
        self._what = what
        self._total = total
        self._per_key = min(per_key, total)
        self._lock = threading.Lock()
        self._taken: Counter[UUID] = Counter()
        self._held = RunningMean()

    @contextmanager
    def place(self, key_id: UUID) -> Iterator[None]:
        """Hold a place while the block runs.

        Raises: TooManyRequests if the key has all places that it may have, Busy if nobody can have
            one; both say when one will be free, judged by how long places were held lately.
        """
        self._take(key_id)
        started_s = time.monotonic()
        try:
            yield
        finally:
            self._held.add(time.monotonic() - started_s)
            self._give_back(key_id)

    def num_taken(self) -> int:
        """Return how many places are taken."""
        with self._lock:
            return self._taken.total()

    def _take(self, key_id: UUID) -> None:
        with self._lock:
            own, all_taken = self._taken[key_id], self._taken.total()
            if own < self._per_key and all_taken < self._total:
                self._taken[key_id] += 1
                return
        if own >= self._per_key:
            raise TooManyRequests(
                f"This API key has {own} {self._what} under way, as many as one key may have.",
                retry_after_s=self._next_place_s(own),
            )
        raise Busy(
            f"The server has {all_taken} {self._what} under way, as many as it takes.",
            retry_after_s=self._next_place_s(all_taken),
        )

    def _give_back(self, key_id: UUID) -> None:
        with self._lock:
            self._taken[key_id] -= 1
            if not self._taken[key_id]:
                del self._taken[key_id]

    def _next_place_s(self, num_taken: int) -> float:
        mean_s = self._held.seconds
        return UNMEASURED_S if mean_s is None else mean_s / max(1, num_taken)
