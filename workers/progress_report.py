"""Report a job's progress to SQL and to watchers, and stop the work when it has to end."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import structlog

from common.errors import Busy, DatabaseUnavailable, ShuttingDown
from common.spans import Span
from common.status import Phase
from storage.db.records import JobRecord
from storage.storage import Storage
from workers.heartbeat import Heartbeat

REPORT_INTERVAL_S = 0.2
# The share of the whole reading that is done at the end of each phase, roughly as it was measured
# on documents of a few thousand tokens.
SHARES = {
    Phase.EXTRACT: 0.0,
    Phase.TOKENIZE: 0.0,
    Phase.PREFILL: 0.6,
    Phase.CLUSTER: 0.8,
    Phase.CALIBRATE: 0.98,
    Phase.PACK: 1.0,
}


class ProgressReport:
    """The `Progress` callback of one job.

    What it writes is the progress of the whole reading, which goes forward only.

    Args:
        heartbeat: says whether the work may go on.
        stop: is set when the worker has to stop.
        on_length: told the document's number of tokens, once it is known.
        every_s: seconds between writes within a phase.
    """

    def __init__(
        self,
        storage: Storage,
        job: JobRecord,
        heartbeat: Heartbeat,
        stop: threading.Event,
        on_length: Callable[[int], None] = lambda _: None,
        every_s: float = REPORT_INTERVAL_S,
    ) -> None:
        self._storage = storage
        self._job = job
        self._heartbeat = heartbeat
        self._stop = stop
        self._on_length = on_length
        self._every_s = every_s
        self._phase: Phase | None = None
        self._written_s = 0.0
        self._tokens_total = 0
        self._tokens_done = 0
        self._spends = Phase.EXTRACT  # the phase that the time since the last report is counted for
        self._spent_s: dict[Phase, float] = {}
        self._spent_at_s = time.monotonic()
        self._stages: list[Span] = []

    def __call__(self, phase: Phase, tokens_done: int, tokens_total: int) -> None:
        """Report progress, if the last report of this phase is old enough.

        Raises: LeaseLost, JobCancelled or DocumentDeleted if the job no longer belongs to this
            worker; ReadingTimeout after its deadline; TurnEnded if others wait; ShuttingDown if
            the worker has to stop.
        """
        now_s = time.monotonic()
        self._spend_until(now_s)
        self._spends = phase
        if tokens_total and not self._tokens_total:
            self._tokens_total = tokens_total
            self._on_length(tokens_total)
        self._heartbeat.check()
        if self._stop.is_set():
            raise ShuttingDown("The worker is stopping.")
        if phase == self._phase and now_s - self._written_s < self._every_s:
            return
        self._phase, self._written_s = phase, now_s
        self._write(phase, tokens_done / tokens_total if tokens_total else 0.0)

    def phases_ms(self) -> dict[str, float]:
        """Milliseconds that each phase has taken until now, by name, and `total`.

        Files are written while later phases run: `pack` is what was left of it after them.
        """
        self._spend_until(time.monotonic())
        spent = {str(phase): round(1000 * spent_s, 3) for phase, spent_s in self._spent_s.items()}
        return {**spent, "total": round(sum(spent.values()), 3)}

    def stages(self) -> tuple[Span, ...]:
        """Return the phases in the order in which they were done; one may come several times."""
        self._spend_until(time.monotonic())
        return tuple(self._stages)

    def _spend_until(self, now_s: float) -> None:
        """Count the time since the last report for the phase that was reported then."""
        self._add_to_stages(now_s - self._spent_at_s)
        self._spent_s[self._spends] = (
            self._spent_s.get(self._spends, 0.0) + now_s - self._spent_at_s
        )
        self._spent_at_s = now_s

    def _add_to_stages(self, spent_s: float) -> None:
        name, last = str(self._spends), self._stages[-1] if self._stages else None
        if last is not None and last.name == name:
            self._stages[-1] = replace(last, duration_s=last.duration_s + spent_s)
        else:
            self._stages.append(Span(name, time.time() - spent_s, spent_s))

    def _write(self, phase: Phase, share: float) -> None:
        done = int(self._tokens_total * _share_of_all(phase, share))
        self._tokens_done = max(self._tokens_done, done)
        try:
            self._storage.jobs.progress(self._job, phase, self._tokens_done, self._tokens_total)
        except (DatabaseUnavailable, Busy) as error:  # reading goes on without the database
            log = structlog.get_logger("lectern.worker")
            log.warning("progress not written", reason=error.code)
            return
        self._storage.notifier.notify_watchers(self._job.document_id)


def _share_of_all(phase: Phase, share: float) -> float:
    """Return the share of the whole reading, from a share of a phase."""
    phases = list(SHARES)
    before = phases[phases.index(phase) - 1] if phase != phases[0] else phase
    return SHARES[before] + (SHARES[phase] - SHARES[before]) * min(1.0, share)
