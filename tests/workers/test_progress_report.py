"""A report of progress writes now and then, and ends work that is nobody's any more."""

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from common.errors import DatabaseUnavailable, LeaseLost, LecternError, ShuttingDown
from common.status import Phase
from storage.db.records import JobRecord
from storage.storage import Storage
from workers.heartbeat import Heartbeat
from workers.progress_report import ProgressReport


class Written:
    """In place of a database: keeps what is written, or fails; and counts who is notified."""

    def __init__(self) -> None:
        self.error: LecternError | None = None
        self.lost: LecternError | None = None
        self.phases: list[Phase] = []
        self.notified: list[str] = []
        self.stop = threading.Event()

    def report(self) -> ProgressReport:
        """A report of a job to this place, which writes once a phase."""
        storage = SimpleNamespace(
            jobs=SimpleNamespace(progress=self._progress),
            notifier=SimpleNamespace(notify_watchers=self.notified.append),
        )
        return ProgressReport(
            cast(Storage, storage),
            cast(JobRecord, SimpleNamespace(id="job", document_id="document")),
            cast(Heartbeat, SimpleNamespace(check=self._check)),
            self.stop,
            every_s=3600.0,
        )

    def _progress(self, _: JobRecord, phase: Phase, *__: Any) -> None:
        if self.error is not None:
            raise self.error
        self.phases.append(phase)

    def _check(self) -> None:
        if self.lost is not None:
            raise self.lost


@pytest.fixture
def written() -> Written:
    return Written()


def test_a_phase_is_written_when_it_begins_and_then_now_and_then(written: Written) -> None:
    report = written.report()
    for done in range(1, 100):
        report(Phase.PREFILL, done, 100)
    report(Phase.CALIBRATE, 100, 100)
    assert written.phases == [Phase.PREFILL, Phase.CALIBRATE]
    assert written.notified == ["document", "document"]


def test_a_job_that_was_lost_ends_at_the_next_step(written: Written) -> None:
    report = written.report()
    report(Phase.PREFILL, 1, 100)
    written.lost = LeaseLost("Another worker has the job.")
    with pytest.raises(LeaseLost):
        report(Phase.PREFILL, 2, 100)


def test_a_worker_that_stops_ends_its_job_at_the_next_step(written: Written) -> None:
    report = written.report()
    report(Phase.PREFILL, 1, 100)
    written.stop.set()
    with pytest.raises(ShuttingDown):
        report(Phase.PREFILL, 2, 100)


def test_reading_goes_on_without_the_database(written: Written) -> None:
    report = written.report()
    written.error = DatabaseUnavailable("The database does not answer.")
    report(Phase.PREFILL, 1, 100)
    assert written.notified == []
