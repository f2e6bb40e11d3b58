"""Progress on its way out: to the job's row, to watchers, and back as an order to stop."""

import threading
import time

import structlog

from common.errors import Busy, DatabaseUnavailable, ShuttingDown
from storage.db.records import JobRecord
from storage.storage import Storage
from workers.heartbeat import Heartbeat

EVERY_S = 0.2


class ProgressReport:
    """A `Progress` for one job; rows are written at most every `every_s` within a phase."""

    def __init__(
        self,
        storage: Storage,
        job: JobRecord,
        heartbeat: Heartbeat,
        stop: threading.Event,
        every_s: float = EVERY_S,
    ) -> None:
        self._storage = storage
        self._job = job
        self._heartbeat = heartbeat
        self._stop = stop
        self._every_s = every_s
        self._phase = ""
        self._told_s = 0.0
        self._prefill_s: list[float] = []

    def __call__(self, phase: str, tokens_done: int, tokens_total: int) -> None:
        """Tell how far the work is.

        Raises: LeaseLost, Cancelled, DocumentDeleted if the job is no longer ours; ShuttingDown.
        """
        now_s = time.monotonic()
        if phase == "prefill":
            self._prefill_s = [*self._prefill_s[:1], now_s]
        self._heartbeat.check()
        if self._stop.is_set():
            raise ShuttingDown("The worker is stopping.")
        if phase == self._phase and now_s - self._told_s < self._every_s:
            return
        self._phase, self._told_s = phase, now_s
        self._tell(phase, tokens_done, tokens_total)

    @property
    def prefill_ms(self) -> float:
        """How long prefill took: what reading the document again would cost."""
        return 1000 * (self._prefill_s[-1] - self._prefill_s[0]) if self._prefill_s else 0.0

    def _tell(self, phase: str, tokens_done: int, tokens_total: int) -> None:
        try:
            self._storage.jobs.progress(self._job, phase, tokens_done, tokens_total)
        except (DatabaseUnavailable, Busy) as error:  # reading needs no database for now
            log = structlog.get_logger("lectern.worker")
            log.warning("progress not written", reason=error.code)
            return
        event = {"phase": phase, "tokens_done": tokens_done, "tokens_total": tokens_total}
        self._storage.bell.publish(self._job.document_id, event)
