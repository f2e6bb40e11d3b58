"""What has to be true for questions to be answered and documents to be read, each with its reason.

Each check returns None if all is well, or else a sentence for the operator.
"""

import shutil
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from app.config import ServerConfig
from app.services.checks import Check
from common.errors import LecternError
from common.format import format_bytes
from engine.model.weights_check import WeightsCheck
from storage.processes import WORKER

if TYPE_CHECKING:  # for annotations alone
    from storage.storage import Storage

CANARY_EVERY_S = 5.0
CANARY_LIMIT_S = 5.0
STUCK_S = 60.0


class EngineCanary:
    """Sends a few tokens through the engine now and then, on a thread of its own.

    Args:
        check: runs a forward pass; what it raises makes the engine unready.
        every_s: seconds for which a result counts.
        limit_s: seconds that a pass may take.
    """

    def __init__(
        self,
        check: Callable[[], None],
        every_s: float = CANARY_EVERY_S,
        limit_s: float = CANARY_LIMIT_S,
    ) -> None:
        self._check = check
        self._every_s = every_s
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._begun_s = -float("inf")
        self._ended = threading.Event()
        self._ended.set()
        self._problem: str | None = None

    def problem(self) -> str | None:
        """Return the result of the last pass, or wait for a new one if that is too old."""
        with self._lock:
            if self._ended.is_set() and time.monotonic() - self._begun_s >= self._every_s:
                self._begun_s = time.monotonic()
                self._ended.clear()
                threading.Thread(target=self._run, name="canary", daemon=True).start()
            limit_s = self._begun_s + self._limit_s - time.monotonic()
        if not self._ended.wait(max(0.0, limit_s)):
            return f"The engine has not finished a pass within {self._limit_s:g} seconds."
        return self._problem

    def _run(self) -> None:
        try:
            self._check()
            self._problem = None
        except Exception as error:  # its text may be long, and is in the log of whoever was asked
            self._problem = f"A pass through the engine fails with {type(error).__name__}."
        finally:
            self._ended.set()


def readiness_checks(
    config: ServerConfig,
    data_dir: Path,
    storage: "Storage",
    check_engine: Callable[[], None],
    questions_problem: Callable[[], str | None],
    stopping_s: Callable[[], float],
    weights_check: WeightsCheck | None = None,
) -> list[Check]:
    """Return the checks of a server.

    Args:
        data_dir: the folder in which storage keeps its files.
        check_engine: runs a forward pass; what it raises makes the server unready.
        questions_problem: returns why questions cannot be answered, if they cannot.
        stopping_s: returns for how many seconds the server has been stopping, or 0.
    """

    def accepting() -> str | None:
        return "The server is stopping." if stopping_s() else None

    def weights() -> str | None:
        return None if weights_check is None else weights_check.problem()

    return [
        Check("database", partial(database_problem, storage)),
        Check("questions", questions_problem, is_quick=True),
        Check("accepting", accepting, is_quick=True),
        Check("engine", EngineCanary(check_engine).problem),
        Check("weights", weights, is_quick=True),
        Check("workers", partial(workers_problem, storage)),
        Check("queue", partial(queue_problem, storage)),
        Check("disk", partial(disk_problem, data_dir, config.max_upload_bytes)),
    ]


def database_problem(storage: "Storage") -> str | None:
    """Check whether the database answers."""
    try:
        storage.db.check()
    except LecternError as error:
        return error.message
    return None


def workers_problem(storage: "Storage") -> str | None:
    """Check whether a worker lives that reads documents with our model and settings."""
    try:
        workers = storage.processes.living(WORKER)
    except LecternError as error:
        return error.message
    if not workers:
        return "No worker is running, so that no document is read."
    if storage.fingerprint not in {worker.fingerprint for worker in workers}:
        return "No worker has this server's model and settings, so that no document is read."
    return None


def queue_problem(storage: "Storage") -> str | None:
    """Check whether documents that wait are being read."""
    try:
        queue = storage.jobs.queue_state()
    except LecternError as error:
        return error.message
    if queue.num_running == 0 and queue.oldest_wait_s > STUCK_S:
        return f"A document has waited for {queue.oldest_wait_s:.0f} seconds, and none is read."
    return None


def disk_problem(folder: Path, needed_bytes: int) -> str | None:
    """Check whether the disk has room.

    Args:
        folder: where files are stored.
        needed_bytes: for the largest upload.
    """
    try:
        free_bytes = shutil.disk_usage(folder).free
    except OSError as error:
        return f"The data folder cannot be looked at ({type(error).__name__})."
    if free_bytes < needed_bytes:
        free, needed = format_bytes(free_bytes), format_bytes(needed_bytes)
        return f"The disk has {free} free, less than an upload may take ({needed})."
    return None
