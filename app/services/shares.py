"""Places that are taken for a while, of which no API key and no tenant can take all."""

import threading
import time
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from app.services.running_mean import RunningMean
from common.errors import Busy, TooManyRequests
from common.owner import Owner

UNMEASURED_S = 2.0
TENANT_LEAVES = 16  # one tenant leaves one place in so many to others


class Shares:
    """A number of places, and how many of them one key may have, and one tenant.

    Args:
        what: what takes a place, in the plural, for messages.
        total: places of all keys together.
        per_key: places of one key.
    """

    def __init__(self, what: str, *, total: int, per_key: int) -> None:
        self._what = what
        self._total = total
        self._per_tenant = total - total // TENANT_LEAVES
        self._per_key = min(per_key, total)
        self._lock = threading.Lock()
        self._taken: Counter[Hashable] = Counter()  # by owner, and by tenant
        self._num_taken = 0
        self._held = RunningMean()

    @contextmanager
    def place(self, owner: Owner) -> Iterator[None]:
        """Hold a place while the block runs.

        Raises: TooManyRequests if key or tenant have all places that they may have, Busy if nobody
            can have one; both say when one will be free, judged by how long places were held
            lately.
        """
        self._take(owner)
        started_s = time.monotonic()
        try:
            yield
        finally:
            self._held.add(time.monotonic() - started_s)
            self._give_back(owner)

    def num_taken(self) -> int:
        """Return how many places are taken."""
        with self._lock:
            return self._num_taken

    def _take(self, owner: Owner) -> None:
        with self._lock:
            own, of_tenant = self._taken[owner], self._taken[owner.tenant]
            all_taken = self._num_taken
            is_key_full = own >= self._per_key
            is_tenant_full = of_tenant >= self._per_tenant
            if not is_key_full and not is_tenant_full and all_taken < self._total:
                self._taken.update((owner, owner.tenant))
                self._num_taken += 1
                return
        if is_key_full:
            raise TooManyRequests(
                f"This API key has {own} {self._what} under way, as many as one key may have.",
                retry_after_s=self._next_place_s(own),
            )
        if all_taken >= self._total:
            raise Busy(
                f"The server has {all_taken} {self._what} under way, as many as it takes.",
                retry_after_s=self._next_place_s(all_taken),
            )
        raise TooManyRequests(
            f"This key's tenant has {of_tenant} {self._what} under way, as many as one tenant "
            "may have.",
            retry_after_s=self._next_place_s(of_tenant),
        )

    def _give_back(self, owner: Owner) -> None:
        with self._lock:
            self._num_taken -= 1
            for one in (owner, owner.tenant):
                self._taken[one] -= 1
                if not self._taken[one]:
                    del self._taken[one]

    def _next_place_s(self, num_taken: int) -> float:
        mean_s = self._held.seconds
        return UNMEASURED_S if mean_s is None else mean_s / max(1, num_taken)
