"""A worker on a thread of its own, so that the main thread can end the process in time."""

import threading
import time

from workers.worker import Worker

WAIT_S = 0.1


class WorkerThread:
    """Runs a worker until it is told to stop."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wait(self, until: threading.Event) -> None:
        """Wait until an event is set or the worker has ended. Raises: what ended the worker."""
        while self._thread.is_alive() and not until.wait(WAIT_S):
            pass
        self._raise_error()

    def stop(self, hurry: threading.Event, timeout_s: float) -> bool:
        """Let the worker put its documents back into the queue, and wait until it has.

        A worker that is in a long call does so when it returns from it. After `timeout_s` seconds,
        or as soon as `hurry` is set, its documents are put back without it.

        Returns: whether the worker has ended; if not, it ends with the process.
        Raises: what ended the worker.
        """
        self._stop.set()
        deadline_s = time.monotonic() + timeout_s
        while self._thread.is_alive():
            if hurry.is_set() or time.monotonic() > deadline_s:
                self._worker.abandon()
                return False
            self._thread.join(WAIT_S)
        self._raise_error()
        return True

    def _run(self) -> None:
        try:
            self._worker.run(self._stop)
        except BaseException as error:
            self._error = error

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error
