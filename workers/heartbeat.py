"""Keeping a lease while the work goes on, from a thread of its own."""

import threading
from collections.abc import Callable
from typing import Self

import structlog

from common.errors import Cancelled, DocumentDeleted, LeaseLost, LecternError

NOT_MINE = (LeaseLost, Cancelled, DocumentDeleted)


class Heartbeat:
    """Beats while its block runs; whoever works asks `check` now and then.

    Args:
        beat: renews the lease, on a connection of the calling thread.
        every_s: well below the lease's length.
    """

    def __init__(self, beat: Callable[[], None], every_s: float) -> None:
        self._beat = beat
        self._every_s = every_s
        self._stop = threading.Event()
        self._lost: LecternError | None = None
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        """Start beating."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop beating."""
        self._stop.set()
        self._thread.join()

    def check(self) -> None:
        """Return if the job is still ours. Raises: LeaseLost, Cancelled, DocumentDeleted."""
        if self._lost is not None:
            raise self._lost

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            try:
                self._beat()
            except NOT_MINE as error:
                self._lost = error
                return
            except LecternError as error:  # the database is away: the lease may outlast that
                log = structlog.get_logger("lectern.worker")
                log.warning("heartbeat missed", reason=error.code)
