"""Processes killed and stopped at the worst moments: nothing is lost, torn, or done twice."""

import os
import random
import signal
import time
from collections import Counter
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest
from sqlalchemy import func, select

from storage.artifacts.draft import STEPS
from storage.db.records import ArtifactRecord, DocumentRecord
from storage.db.tables import Artifact, Job
from storage.storage import Storage
from tests.faults import child
from tests.faults.conftest import Start, Upload, wait_for, wait_until_stopped
from workers.sweeper import Sweeper
from workers.worker import Worker

VISIBLE = STEPS.index("committed")


def is_whole(storage: Storage, artifact: ArtifactRecord) -> bool:
    return child.FILES.items() <= dict(storage.artifacts.load(artifact).files).items()


def folders(folder: Path) -> set[str]:
    return {path.name for path in (folder / "artifacts").iterdir()}


def check_one_cache_each(storage: Storage, folder: Path, documents: list[DocumentRecord]) -> None:
    """Every document has its cache, whole, and after a collection nothing else is left."""
    storage.artifacts.collect_garbage()
    assert len(folders(folder)) == len(documents)
    for document in documents:
        artifact = storage.artifacts.current(document.id)
        assert artifact is not None
        assert is_whole(storage, artifact)


def read_here(storage: Storage) -> None:
    """Read what is queued, in this process."""
    worker = Worker(storage, child.StubArtifactBuilder(), child.STEADY)
    while worker.run_once():
        pass


def status(storage: Storage, document: DocumentRecord) -> str:
    return storage.documents.find(document.id).status


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("url", "before"),
    [
        ("sqlite", "nothing"),
        ("sqlite", "an older artifact"),
        ("postgresql", "an older artifact"),
    ],
    indirect=["url"],
)
def test_a_publish_killed_at_any_step_shows_the_old_or_the_new(
    storage: Storage, upload: Upload, start: Start, url: str, folder: Path, before: str, step: str
) -> None:
    document = upload()
    old = None
    if before != "nothing":
        read_here(storage)
        old = storage.artifacts.current(document.id)
        with storage.db.session() as session:  # of another model, so that it is read again
            session.get_one(Artifact, old and old.id).fingerprint = "before"
        storage.jobs.enqueue(document.id)
        old = storage.artifacts.current(document.id)

    process = start(child.publish_until, url, folder, step, signal.SIGKILL)
    process.join(30)
    assert process.exitcode == -signal.SIGKILL

    seen = storage.artifacts.current(document.id)
    if STEPS.index(step) < VISIBLE:
        assert seen == old
        assert status(storage, document) in ("reading", "rebuilding")
    else:
        assert seen is not None
        assert seen != old
        assert is_whole(storage, seen)
        assert status(storage, document) == "ready"
    if seen is not None and seen.fingerprint == "now":
        assert is_whole(storage, seen)

    storage.artifacts.collect_garbage()
    assert folders(folder) == {artifact.folder for artifact in (old, seen) if artifact}
    wait_for(lambda: storage.jobs.sweep(99) or status(storage, document) == "ready")
    read_here(storage)
    final = storage.artifacts.current(document.id)
    assert final is not None
    assert is_whole(storage, final)
    assert folders(folder) == {artifact.folder for artifact in (old, final) if artifact}
    assert status(storage, document) == "ready"


def test_workers_killed_at_random_lose_nothing_and_commit_nothing_twice(
    storage: Storage, upload: Upload, start: Start, url: str, folder: Path, tmp_path: Path
) -> None:
    documents = [upload(f"Text {number}.") for number in range(40)]
    log = tmp_path / "commits"
    chance = random.Random(7)

    def begin() -> ForkServerProcess:
        return start(child.work, url, folder, log, 0.06)

    workers = [begin() for _ in range(3)]
    kills = 0

    def all_ready() -> bool:
        return {status(storage, document) for document in documents} == {"ready"}

    def at_work() -> ForkServerProcess | None:
        """A worker that has a job: its name holds its process id."""
        with storage.db.reading() as session:
            owners = session.scalars(select(Job.lease_owner).where(Job.status == "running")).all()
        names = " ".join(owner or "" for owner in owners)
        return next((worker for worker in workers if f"_{worker.pid}_" in names), None)

    deadline_s = time.monotonic() + 60
    while not all_ready():
        assert time.monotonic() < deadline_s
        time.sleep(chance.uniform(0.02, 0.12))
        if kills < 10 and (victim := at_work()) is not None:
            victim.kill()
            workers[workers.index(victim)] = begin()
            kills += 1
    for worker in workers:
        worker.kill()
        worker.join()

    commits = Counter(log.read_text().split())
    assert set(commits) <= {document.blob_key for document in documents}
    assert set(commits.values()) <= {1}
    with storage.db.reading() as session:
        done = session.scalars(select(Job.document_id).where(Job.status == "done")).all()
        assert session.scalar(select(func.count()).select_from(Artifact)) == len(documents)
        assert session.scalar(select(func.count()).where(Job.attempt > 1)), "no kill hit anything"
    assert sorted(done) == sorted(document.id for document in documents)
    check_one_cache_each(storage, folder, documents)


def test_a_killed_worker_is_replaced_at_once_though_its_lease_is_long(
    storage: Storage, upload: Upload, start: Start, url: str, folder: Path, tmp_path: Path
) -> None:
    document = upload()
    slow = start(child.work, url, folder, tmp_path / "log", 60.0)
    wait_for(lambda: status(storage, document) == "reading")
    slow.kill()
    slow.join()
    Sweeper(storage, 3).sweep()
    assert status(storage, document) == "queued"
    read_here(storage)
    assert status(storage, document) == "ready"


def test_a_document_that_kills_its_workers_is_set_aside(
    storage: Storage, upload: Upload, start: Start, url: str, folder: Path
) -> None:
    document = upload()
    for _ in range(3):
        process = start(child.poison, url, folder)
        process.join(30)
        assert process.exitcode == -signal.SIGKILL
    Sweeper(storage, 3).sweep()
    failed = storage.documents.find(document.id)
    assert (failed.status, failed.error_code) == ("failed", "worker_crashed")
    assert storage.jobs.claim("another", 30) is None


@pytest.mark.parametrize("moment", ["reading", "folder_synced", "parent_synced"])
def test_a_worker_stopped_past_its_lease_cannot_publish(
    storage: Storage, upload: Upload, start: Start, url: str, folder: Path, moment: str
) -> None:
    document = upload()
    if moment == "reading":
        sleeper = start(child.read_until, url, folder, 10, signal.SIGSTOP)
    else:
        sleeper = start(child.publish_until, url, folder, moment, signal.SIGSTOP)
    wait_until_stopped(sleeper)
    assert sleeper.pid is not None
    wait_for(lambda: storage.jobs.sweep(99))
    read_here(storage)
    winner = storage.artifacts.current(document.id)
    assert winner is not None

    os.kill(sleeper.pid, signal.SIGCONT)
    sleeper.join(30)
    assert sleeper.exitcode == 0
    assert storage.artifacts.current(document.id) == winner
    assert is_whole(storage, winner)
    assert folders(folder) == {winner.folder}
    job = storage.jobs.latest(document.id)
    assert job is not None
    assert (job.status, job.attempt, job.lease_owner) == ("done", 2, None)


def test_a_worker_stopped_inside_its_commit_keeps_its_job(
    storage: Storage, upload: Upload, start: Start, url: str, folder: Path
) -> None:
    document = upload()
    sleeper = start(child.publish_until, url, folder, "job_fenced", signal.SIGSTOP)
    wait_until_stopped(sleeper)
    assert sleeper.pid is not None
    if url.startswith("postgresql"):
        time.sleep(2 * child.SOON_S)
        assert storage.jobs.sweep(99) == (), "the row is held"
    os.kill(sleeper.pid, signal.SIGCONT)
    sleeper.join(30)
    assert status(storage, document) == "ready"
    job = storage.jobs.latest(document.id)
    assert job is not None
    assert (job.status, job.attempt) == ("done", 1)


def test_bytes_of_a_document_deleted_while_its_worker_is_stopped_go_in_the_end(
    storage: Storage, upload: Upload, start: Start, url: str, folder: Path
) -> None:
    document = upload()
    sleeper = start(child.publish_until, url, folder, "parent_synced", signal.SIGSTOP)
    wait_until_stopped(sleeper)
    storage.documents.delete(document.tenant_id, document.id)
    assert storage.artifacts.collect_garbage() == 0, "its writer is alive"
    assert sleeper.pid is not None
    os.kill(sleeper.pid, signal.SIGCONT)
    sleeper.join(30)
    assert sleeper.exitcode == 0
    assert folders(folder) == set()
