"""What may still be used in the present minute or day, in portions that a process takes ahead.

A process takes a fiftieth of a limit from the counter that all processes share, and spends it
without asking again. So a limit is never exceeded, however many processes there are, and most
requests write nothing. A process that is killed loses the rest of its portion until the minute
ends.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from common.errors import RateLimited
from storage.quotas.counters import Counter, Window
from storage.quotas.resources import Resource

PORTIONS = 50
MAX_OPEN = 20_000


@dataclass(frozen=True)
class WindowState:
    """How an owner stands in a window.

    Attributes:
        is_granted: whether what was asked for may be used.
        remaining: how much may still be used in the window, as far as this process knows.
        reset_s: seconds until the next window begins.
    """

    resource: Resource
    limit: int
    is_granted: bool
    remaining: int
    reset_s: float


class WindowSpent(RateLimited):
    """A limit leaves less than was asked for.

    Attributes:
        state: how the limit stands.
    """

    def __init__(self, message: str, state: WindowState | None = None) -> None:
        super().__init__(message, retry_after_s=None if state is None else state.reset_s)
        self.state = state


@dataclass
class _Portion:
    """What this process has taken and not spent yet, and what everybody has taken."""

    unspent: int = 0
    used: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Windows:
    """The windows of all owners, in one process.

    Args:
        counter: what all processes share.
        clock: returns the present Unix second.
    """

    def __init__(self, counter: Counter, clock: Callable[[], float] = time.time) -> None:
        self._counter = counter
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[Window, _Portion] = {}

    def take(self, owner_id: UUID, resource: Resource, limit: int, amount: int = 1) -> WindowState:
        """Use an amount of a resource, if the limit leaves so much.

        Raises: DatabaseUnavailable, Busy.
        """
        window, reset_s = self._now(owner_id, resource)
        portion = self._portion(window)
        with portion.lock:  # of this window alone, since the counter may have to be waited for
            is_granted = portion.unspent >= amount
            if not is_granted:
                missing = amount - portion.unspent
                ahead = limit // PORTIONS if resource is Resource.REQUESTS else 0
                wanted = max(missing, ahead)
                granted, portion.used = self._counter.take(window, missing, wanted, limit)
                portion.unspent += granted
                is_granted = granted > 0
            if is_granted:
                portion.unspent -= amount
            remaining = max(0, limit - portion.used) + portion.unspent
        return WindowState(resource, limit, is_granted, remaining, reset_s)

    def give_back(self, owner_id: UUID, resource: Resource, amount: int) -> None:
        """Let this process use again what it has taken in the present window for nothing."""
        portion = self._portion(self._now(owner_id, resource)[0])
        with portion.lock:
            portion.unspent += amount

    def used(self, owner_id: UUID, resource: Resource) -> tuple[int, float]:
        """Return how much was used in the present window, and seconds until the next begins."""
        window, reset_s = self._now(owner_id, resource)
        return max(0, self._counter.used(window) - self._portion(window).unspent), reset_s

    def window(self, owner_id: UUID, resource: Resource) -> Window:
        """Return the present window."""
        return self._now(owner_id, resource)[0]

    def _now(self, owner_id: UUID, resource: Resource) -> tuple[Window, float]:
        window_s = resource.window_s
        assert window_s is not None, f"{resource} is not counted in spans of time"
        now_s = self._clock()
        start = int(now_s // window_s) * window_s
        return Window(owner_id, resource, start), start + window_s - now_s

    def _portion(self, window: Window) -> _Portion:
        """Return what this process has of a window; those that are over are forgotten."""
        with self._lock:
            if window not in self._open and len(self._open) >= MAX_OPEN:
                now_s = self._clock()
                self._open = {
                    one: portion
                    for one, portion in self._open.items()
                    if one.start + (one.resource.window_s or 0) > now_s
                }
            return self._open.setdefault(window, _Portion())
