"""What the dashboard computed a short while ago, so that refreshing it costs little."""

import threading
import time
from collections.abc import Callable, Hashable
from typing import Any


class Memo:
    """Results by what they are of; each is computed by one caller at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._results: dict[Hashable, tuple[float, Any]] = {}

    def get(self, key: Hashable, max_age_s: float, compute: Callable[[], Any]) -> Any:
        """Return a result that is at most `max_age_s` seconds old, or else compute it.

        Args:
            key: one of a few, as nothing is forgotten.
        """
        with self._lock:
            made_s, result = self._results.get(key, (float("-inf"), None))
            if time.monotonic() - made_s > max_age_s:
                result = compute()
                self._results[key] = (time.monotonic(), result)
            return result
