"""A mean that follows what was measured lately."""

import threading

RECENT_WEIGHT = 0.2


class RunningMean:
    """The exponentially weighted mean of durations in seconds; threads may share one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds: float | None = None

    def add(self, seconds: float) -> None:
        """Take one more duration into the mean."""
        with self._lock:
            mean_s = seconds if self._seconds is None else self._seconds
            self._seconds = mean_s + RECENT_WEIGHT * (seconds - mean_s)

    @property
    def seconds(self) -> float | None:
        """The mean; None before the first duration."""
        return self._seconds
