"""A worker on a thread: stopped in time, and not waited for by somebody in a hurry."""

import threading
import time

import pytest

from cli.worker_thread import WorkerThread


class FakeWorker:
    """Works until it is told to stop, or on regardless."""

    def __init__(self, *, is_stuck: bool = False, error: Exception | None = None) -> None:
        self.is_stuck = is_stuck
        self.error = error
        self.go_on = threading.Event()
        self.abandoned = 0

    def run(self, stop: threading.Event) -> None:
        if self.error is not None:
            raise self.error
        (self.go_on if self.is_stuck else stop).wait(60)

    def abandon(self) -> None:
        self.abandoned += 1


def test_a_worker_that_stops_is_waited_for() -> None:
    worker = FakeWorker()
    thread = WorkerThread(worker)  # type: ignore[arg-type]
    thread.start()
    assert thread.stop(threading.Event(), 60)
    assert worker.abandoned == 0


@pytest.mark.parametrize("by", ["signal", "time"])
def test_a_worker_that_does_not_stop_loses_its_jobs(by: str) -> None:
    worker, hurry = FakeWorker(is_stuck=True), threading.Event()
    thread = WorkerThread(worker)  # type: ignore[arg-type]
    thread.start()
    if by == "signal":
        threading.Timer(0.2, hurry.set).start()
    begun_s = time.monotonic()
    assert not thread.stop(hurry, 60 if by == "signal" else 0.2)
    assert time.monotonic() - begun_s < 30
    assert worker.abandoned == 1
    worker.go_on.set()


def test_what_ends_the_worker_is_raised() -> None:
    thread = WorkerThread(FakeWorker(error=ValueError("No model.")))  # type: ignore[arg-type]
    thread.start()
    with pytest.raises(ValueError, match="No model"):
        thread.wait(threading.Event())
