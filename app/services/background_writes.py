"""Writes to SQL that no caller waits for, done one after the other on a thread of their own."""

import queue
import threading
from collections.abc import Callable
from contextlib import suppress

import structlog

from common.error_trace import error_trace
from common.errors import LecternError, Transient

MAX_WAITING = 10_000
RETRY_S = 2.0
DELAY_S = 0.05  # in which a caller's next question gets its first token undisturbed

Write = Callable[[], None]


class BackgroundWrites:
    """A bounded queue of writes.

    It is for figures that nobody was promised: while the database is away they wait, and when
    there are too many, or the server stops before the database answers, they are given up, which
    is logged with their number.

    Args:
        max_waiting: how many writes may wait.
        retry_s: seconds until a write is tried again while the database is away.
        delay_s: seconds that a write waits at first.
    """

    def __init__(
        self,
        max_waiting: int = MAX_WAITING,
        retry_s: float = RETRY_S,
        delay_s: float = DELAY_S,
    ) -> None:
        self._waiting: queue.Queue[Write] = queue.Queue(max_waiting)
        self._retry_s, self._delay_s = retry_s, delay_s
        self._is_closing = threading.Event()
        self._num_lost = 0
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="background-writes", daemon=True)
        self._thread.start()

    def add(self, write: Write) -> None:
        """Let a write be done soon; never waits."""
        try:
            self._waiting.put_nowait(write)
        except queue.Full:
            self._num_lost += 1

    def close(self, timeout_s: float) -> None:
        """Do what still waits, once each, and end the thread.

        Args:
            timeout_s: longest wait in seconds.
        """
        self._is_closing.set()
        self.add(lambda: None)  # wakes the thread
        if self._thread is not None:
            self._thread.join(timeout_s)
        self._num_lost += self._waiting.qsize()
        self._log_losses()

    def _run(self) -> None:
        while not (self._is_closing.is_set() and self._waiting.empty()):
            write = self._waiting.get()
            self._is_closing.wait(self._delay_s)
            self._do(write)
            with suppress(queue.Empty):
                while True:
                    self._do(self._waiting.get_nowait())
            self._log_losses()

    def _do(self, write: Write) -> None:
        """Do a write; try again while the database is away, but not while the server stops."""
        log = structlog.get_logger("lectern.storage")
        has_failed = False
        while True:
            try:
                write()
                return
            except Transient as error:
                if not has_failed:
                    log.warning("figures of questions wait for the database", reason=error.code)
                has_failed = True
                if self._is_closing.wait(self._retry_s):
                    self._num_lost += 1
                    return
            except LecternError as error:
                log.error("figures of a question cannot be recorded", reason=error.code)
                return
            except Exception as error:
                log.error("figures of a question cannot be recorded", exception=error_trace(error))
                return

    def _log_losses(self) -> None:
        num_lost, self._num_lost = self._num_lost, 0
        if num_lost:
            log = structlog.get_logger("lectern.storage")
            log.warning("figures of questions were not recorded", num_writes=num_lost)
