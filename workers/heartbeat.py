"""Renew the lease of a job from a thread of its own while the job is being done."""

import threading
from collections.abc import Callable
from typing import Self

import structlog

from common.errors import LecternError
from storage.jobs.transitions import JOB_LOST_ERRORS


class Heartbeat:
    """Renews a lease while its block runs; the code in the block calls `check` now and then.

    Args:
        renew: renews the lease; called on the heartbeat's own thread.
        every_s: seconds between renewals, well below the length of the lease.
    """

    def __init__(self, renew: Callable[[], None], every_s: float) -> None:
        self._renew = renew
        self._every_s = every_s
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
        """Return if the job still belongs to this worker.

        Raises: LeaseLost, JobCancelled or DocumentDeleted, as the last renewal did.
        """
        if self._loss is not None:
            raise self._loss

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            try:
                self._renew()
            except JOB_LOST_ERRORS as error:
                self._loss = error
                return
            except LecternError as error:  # the lease may last until the database answers again
                log = structlog.get_logger("lectern.worker")
                log.warning("heartbeat missed", reason=error.code)
