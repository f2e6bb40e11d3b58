"""Housekeeping: what dead workers leave behind is picked up, what live ones hold is not."""

import threading
from datetime import timedelta
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import func, select, update
from structlog.testing import capture_logs

from common.errors import DatabaseUnavailable
from storage.db.tables import Answer, Process
from storage.jobs.liveness import WorkerLiveness
from storage.storage import Storage
from tests.storage.test_answers import answer
from tests.workers.conftest import StubArtifactBuilder, Upload
from workers.sweeper import Sweeper
from workers.worker import Worker


@pytest.fixture
def sweeper(storage: Storage) -> Sweeper:
    """A sweeper that parks jobs after three crashes."""
    return Sweeper(storage, 3)


def status(storage: Storage, upload_id: object) -> str:
    job = storage.jobs.latest(upload_id)  # type: ignore[arg-type]
    assert job is not None
    return job.status


def test_a_live_workers_job_stays_and_a_dead_ones_is_queued_again(
    storage: Storage, sweeper: Sweeper, upload: Upload, tmp_path: Path
) -> None:
    document = upload()
    owner = storage.liveness.new_owner()
    with storage.liveness.hold(owner):
        assert storage.jobs.claim(owner, 300) is not None
        sweeper.sweep()
        assert status(storage, document.id) == "running"
    # A killed process leaves its file, and nobody holds the lock.
    (tmp_path / "data" / "workers" / f"{owner}.alive").touch()
    sweeper.sweep()
    assert status(storage, document.id) == "queued"
    assert storage.liveness.dead_owners() == ()


def test_workers_of_other_hosts_keep_their_leases(
    storage: Storage, sweeper: Sweeper, upload: Upload, tmp_path: Path
) -> None:
    document = upload()
    owner = WorkerLiveness(tmp_path / "data" / "workers", "else/where").new_owner()
    storage.jobs.claim(owner, 300)
    (tmp_path / "data" / "workers").mkdir()
    (tmp_path / "data" / "workers" / f"{owner}.alive").touch()
    sweeper.sweep()
    assert status(storage, document.id) == "running"


def test_forgotten_folders_are_removed(storage: Storage, sweeper: Sweeper, tmp_path: Path) -> None:
    left = tmp_path / "data" / "artifacts" / f"{uuid4()}.{uuid4().hex}.draft"
    left.mkdir(parents=True)
    sweeper.sweep()
    assert not left.exists()


def test_originals_without_a_row_are_collected(
    storage: Storage, sweeper: Sweeper, upload: Upload, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    kept = upload().blob_key
    (tmp_path / "broken-off").write_text("an upload whose row was never made")
    left = storage.blobs.put(tmp_path / "broken-off")
    sweeper.sweep()
    assert set(storage.blobs.keys()) == {kept, left}  # it may be an upload that is in progress
    at_once = partial(storage.documents.collect_garbage, unclaimed_s=0.0)
    monkeypatch.setattr(storage.documents, "collect_garbage", at_once)
    Sweeper(storage, 3).sweep()
    assert set(storage.blobs.keys()) == {kept}


def test_files_are_not_listed_at_every_sweep(
    storage: Storage, sweeper: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    for name, part in (("folders", storage.artifacts), ("originals", storage.documents)):
        monkeypatch.setattr(part, "collect_garbage", partial(calls.append, name))
    sweeper.sweep()
    sweeper.sweep()
    assert calls == ["folders", "originals"]
    monkeypatch.setattr("workers.sweeper.COLLECT_INTERVAL_S", 0.0)
    sweeper.sweep()
    assert calls == 2 * ["folders", "originals"]


def test_a_sweep_of_other_settings_reads_nothing_again_and_removes_nothing(
    storage: Storage, worker: Worker, builder: StubArtifactBuilder, upload: Upload
) -> None:
    document = upload()
    worker.run_once()
    other = storage.of("of another model")
    Sweeper(other, 3).sweep()
    assert not worker.run_once()
    assert storage.documents.find(document.id).status == "ready"
    assert other.space.unread().document_ids == (document.id,)
    assert other.space.unread().num_tokens == 4


def test_jobs_of_settings_that_nobody_has_any_more_are_taken_over(
    storage: Storage, sweeper: Sweeper, worker: Worker, upload: Upload
) -> None:
    document = upload()
    worker.run_once()
    gone = storage.of("gone")
    gone.jobs.enqueue(document.id)
    gone.processes.beat("server", "server", "gone")
    sweeper.sweep()
    assert not worker.run_once(), "somebody has these settings"
    with storage.processes.alive("server", "server", "gone"):
        pass
    sweeper.sweep()
    assert worker.run_once()


def test_old_answers_and_the_rows_of_dead_processes_are_removed(
    storage: Storage, sweeper: Sweeper, worker: Worker, upload: Upload
) -> None:
    document = upload()
    answer(storage, document)
    answer(storage, document)
    storage.processes.beat("dead", "worker", "now")
    with storage.db.session() as session:
        old = storage.db.now(session) - timedelta(days=91)
        first = session.scalars(select(Answer.id).limit(1)).one()
        session.execute(update(Answer).where(Answer.id == first).values(created_at=old))
        session.execute(update(Process).values(heartbeat_at=old))
    sweeper.sweep()
    with storage.db.reading() as session:
        assert session.scalar(select(func.count()).select_from(Answer)) == 1
        assert session.scalar(select(func.count()).select_from(Process)) == 0
    assert storage.answers.summary().num_answers == 2, "sums are kept"


def test_a_sweep_that_fails_is_not_the_last(
    storage: Storage, sweeper: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = threading.Event()
    faults = iter([DatabaseUnavailable("away"), ValueError("bug")])
    calls: list[int] = []

    def shaky() -> None:
        calls.append(1)
        for fault in faults:
            raise fault
        stop.set()

    monkeypatch.setattr("workers.sweeper.SWEEP_INTERVAL_S", 0.0)
    monkeypatch.setattr(sweeper, "sweep", shaky)
    with capture_logs() as logs:
        sweeper.run(stop)
    assert len(calls) == 3
    assert [line["log_level"] for line in logs] == ["warning", "error"]
