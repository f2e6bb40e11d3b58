"""Noticing that the wall clock was set, or that the machine slept: leases say nothing then."""

from datetime import datetime
from time import monotonic

LEAP_S = 5.0
SETTLE_S = 30.0  # until every live worker has renewed its lease by the new time


class Leaps:
    """Holds the clock that all workers share against this process's own, which nobody can set."""

    def __init__(self) -> None:
        self._ahead_s: float | None = None
        self._leapt_s: float | None = None

    def settled(self, now: datetime) -> bool:
        """Whether the shared clock has gone on evenly for a while, as far as it was looked at.

        Args:
            now: by the shared clock, this moment.
        """
        own_s = monotonic()
        before_s, self._ahead_s = self._ahead_s, now.timestamp() - own_s
        if before_s is not None and abs(self._ahead_s - before_s) > LEAP_S:
            self._leapt_s = own_s
        return self._leapt_s is None or own_s - self._leapt_s >= SETTLE_S
