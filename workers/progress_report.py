"""Report a job's progress to SQL and to watchers, and stop the work when it has to end."""

import threading
import time

import structlog

from common.errors import Busy, DatabaseUnavailable, ShuttingDown
from common.status import Phase
from storage.db.records import JobRecord
from storage.storage import Storage
from workers.heartbeat import Heartbeat

REPORT_INTERVAL_S = 0.2


class ProgressReport:
    """The `Progress` callback of one job.

    Args:
        heartbeat: says whether the job still belongs to this worker.
        stop: is set when the worker has to stop.
        every_s: seconds between writes within a phase.
    """

    def __init__(
        self,
        storage: Storage,
        job: JobRecord,
        heartbeat: Heartbeat,
        stop: threading.Event,
        every_s: float = REPORT_INTERVAL_S,
    ) -> None:
        self._storage = storage
        self._job = job
        self._heartbeat = heartbeat
        self._stop = stop
        self._every_s = every_s
        self._phase: Phase | None = None
        self._written_s = 0.0
        self._prefill_s: list[float] = []

    def __call__(self, phase: Phase, tokens_done: int, tokens_total: int) -> None:
        """Report progress, if the last report of this phase is old enough.

        Raises: LeaseLost, JobCancelled or DocumentDeleted if the job no longer belongs to this
            worker; ShuttingDown if the worker has to stop.
        """
        now_s = time.monotonic()
        if phase == Phase.PREFILL:
            self._prefill_s = [*self._prefill_s[:1], now_s]
        self._heartbeat.check()
        if self._stop.is_set():
            raise ShuttingDown("The worker is stopping.")
        if phase == self._phase and now_s - self._written_s < self._every_s:
            return
        self._phase, self._written_s = phase, now_s
        self._write(phase, tokens_done, tokens_total)

    @property
    def prefill_ms(self) -> float:
        """Milliseconds that prefill took, which is what reading the document again would take."""
        return 1000 * (self._prefill_s[-1] - self._prefill_s[0]) if self._prefill_s else 0.0

    def _write(self, phase: Phase, tokens_done: int, tokens_total: int) -> None:
        try:
            self._storage.jobs.progress(self._job, phase, tokens_done, tokens_total)
        except (DatabaseUnavailable, Busy) as error:  # reading goes on without the database
            log = structlog.get_logger("lectern.worker")
            log.warning("progress not written", reason=error.code)
            return
        self._storage.notifier.notify_watchers(self._job.document_id)
