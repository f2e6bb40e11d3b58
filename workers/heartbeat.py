"""Watch over a job from a thread of its own while the job is being done."""

import threading
import time
from collections.abc import Callable
from typing import Self

import structlog

from common.errors import LecternError, Transient, TurnEnded
from storage.jobs.transitions import JOB_LOST_ERRORS

WATCH_S = 0.4  # how soon the work learns that its job was cancelled or taken away


class Heartbeat:
    """Renews a lease while its block runs; the code in the block calls `check` now and then.

    Args:
        renew: renews the lease; called on the heartbeat's own thread, as `watch` is.
        every_s: seconds between renewals, well below the length of the lease.
        watch: called more often than `renew`; what it raises stops the work, unless it is a
            temporary fault that says nothing about the job.
    """

    def __init__(
        self, renew: Callable[[], None], every_s: float, watch: Callable[[], None]
    ) -> None:
        self._renew = renew
        self._every_s = every_s
        self._watch = watch
        self._renewed_s = time.monotonic()
        self._stop = threading.Event()
        self._loss: LecternError | None = None
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the thread."""
        self._stop.set()
        self._thread.join()

    def check(self) -> None:
        """Return if the work may go on.

        Raises: what the last renewal or the last look at the job raised, LeaseLost, JobCancelled or
            DocumentDeleted among it.
        """
        if self._loss is not None:
            raise self._loss

    def _run(self) -> None:
        while not self._stop.wait(min(self._every_s, WATCH_S)):
            try:
                self._watch()
                if time.monotonic() - self._renewed_s >= self._every_s:
                    self._renew()
                    self._renewed_s = time.monotonic()
            except LecternError as error:
                if self._is_passing(error):  # the lease may last until the database answers again
                    log = structlog.get_logger("lectern.worker")
                    log.warning("heartbeat missed", reason=error.code)
                    continue
                self._loss = error
                return

    def _is_passing(self, error: LecternError) -> bool:
        return isinstance(error, Transient) and not isinstance(error, (*JOB_LOST_ERRORS, TurnEnded))
