"""Calls that are made again and again while a server is under pressure, and how long they took."""

import http.client
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from bench.faults.server import Reply
from training.record import percentiles

# What is called: a request that is sent and answered.
Call = Callable[[], Reply]


class Probe:
    """One kind of call.

    Attributes:
        milliseconds: how long each call took that was answered as expected.
        failures: what became of the others: a status, or the name of an error.
    """

    def __init__(self, call: Call, status: int = 200) -> None:
        self._call = call
        self._status = status
        self.milliseconds: list[float] = []
        self.failures: list[str] = []

    def once(self) -> None:
        """Make the call once, and note how long it took."""
        started_s = time.perf_counter()
        try:
            reply = self._call()
        except (OSError, http.client.HTTPException) as error:
            self.failures.append(type(error).__name__)
            return
        if reply.status == self._status:
            self.milliseconds.append(1000 * (time.perf_counter() - started_s))
        else:
            self.failures.append(str(reply.status))

    @property
    def answered_share(self) -> float:
        """The share of calls that were answered as expected."""
        num_calls = len(self.milliseconds) + len(self.failures)
        return len(self.milliseconds) / num_calls if num_calls else 0.0

    def summary(self) -> dict[str, Any]:
        """Return the percentiles, the longest call, and the failures by kind."""
        kinds = {kind: self.failures.count(kind) for kind in sorted(set(self.failures))}
        times = percentiles(self.milliseconds) if self.milliseconds else {}
        longest = {"max": max(self.milliseconds)} if self.milliseconds else {}
        return {**times, **longest, "answered": self.answered_share, "failures": kinds}


def repeat(probes: Mapping[str, Probe], times: int) -> None:
    """Make each call so many times, in turn."""
    for _ in range(times):
        for probe in probes.values():
            probe.once()


@contextmanager
def probing(probes: Sequence[Probe], every_s: float) -> Iterator[None]:
    """Make each call again and again on a thread of its own while the block runs.

    Args:
        every_s: seconds from the start of a call to that of the next, or more if it takes longer.
    """
    stop = threading.Event()

    def run(probe: Probe) -> None:
        while not stop.is_set():
            next_s = time.monotonic() + every_s
            probe.once()
            stop.wait(max(0.0, next_s - time.monotonic()))

    threads = [threading.Thread(target=run, args=(probe,), daemon=True) for probe in probes]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
