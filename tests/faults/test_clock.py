"""A wall clock that is set by hours while work goes on: nothing is stuck, lost or done twice.

Every time that workers compare is `Database.now`; these tests set it. Waits, heartbeats and
timeouts go by monotonic clocks, which nobody can set.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from storage.artifacts.store import Artifacts
from storage.db.database import Database
from storage.db.records import DocumentRecord, JobRecord
from storage.jobs.jobs import LONGEST_DELAY_S, Jobs
from storage.jobs.liveness import SETTLE_S
from storage.storage import Storage
from tests.faults import child
from tests.faults.conftest import Upload, wait_for
from tests.faults.test_kills import check_one_cache_each, folders, is_whole, read_here, status
from workers.worker import Worker

HOURS_S = 7200.0
JUMPS = pytest.mark.parametrize("jump_s", [HOURS_S, -HOURS_S], ids=["ahead", "back"])
LEASE_S = 30.0
SetClock = Callable[[float], None]
PassTime = Callable[[float, Callable[[], object]], int]


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> SetClock:
    """Set the wall clock, in seconds from the true one."""
    ahead_s = 0.0
    true_now, true_time = Database.now, time.time

    def set_to(seconds: float) -> None:
        nonlocal ahead_s
        ahead_s = seconds

    def now(db: Database, session: Session) -> object:
        return true_now(db, session) + timedelta(seconds=ahead_s)

    monkeypatch.setattr(Database, "now", now)
    monkeypatch.setattr(time, "time", lambda: true_time() + ahead_s)
    return set_to


def latest(storage: Storage, document: DocumentRecord) -> JobRecord:
    job = storage.jobs.latest(document.id)
    assert job is not None
    return job


# -- one job -----------------------------------------------------------------------------------


@JUMPS
def test_a_live_worker_renews_its_lease_by_the_new_time(
    storage: Storage, upload: Upload, set_clock: SetClock, folder: Path, jump_s: float
) -> None:
    document = upload()

    def beaten_s() -> float:
        expires_at = latest(storage, document).lease_expires_at
        assert expires_at is not None
        return expires_at.timestamp()

    def jump(step: int) -> None:
        if step != 1:
            return
        before_s = beaten_s()
        set_clock(jump_s)
        wait_for(lambda: abs(beaten_s() - before_s) > HOURS_S / 2)
        assert storage.jobs.sweep(3) == ()

    assert Worker(storage, child.StubArtifactBuilder(num_steps=3, at=jump), child.STEADY).run_once()
    job = latest(storage, document)
    assert (job.status, job.attempt, job.crashes) == ("done", 1, 0)
    assert status(storage, document) == "ready"
    assert len(folders(folder)) == 1


@JUMPS
def test_a_live_worker_keeps_its_job_though_it_is_looked_at_before_its_next_heartbeat(
    storage: Storage, upload: Upload, set_clock: SetClock, jump_s: float
) -> None:
    document = upload()

    def jump(step: int) -> None:
        assert storage.jobs.sweep(3) == ()
        set_clock(jump_s * (step % 2))

    silent = replace(child.STEADY, heartbeat_s=60.0)
    assert Worker(storage, child.StubArtifactBuilder(num_steps=5, at=jump), silent).run_once()
    job = latest(storage, document)
    assert (job.status, job.attempt, job.crashes) == ("done", 1, 0)


@JUMPS
def test_a_job_that_a_newcomer_takes_over_in_the_jump_is_published_once(
    storage: Storage, upload: Upload, set_clock: SetClock, folder: Path, jump_s: float
) -> None:
    document = upload()
    winner = []

    def jump(step: int) -> None:
        if step != 1:
            return
        set_clock(jump_s)
        newcomer = Jobs(storage.db)  # has not seen the clock before
        assert newcomer.sweep(3), "before the next heartbeat"
        read_here(storage)
        winner.append(storage.artifacts.current(document.id))

    silent = replace(child.STEADY, heartbeat_s=60.0)
    builder = child.StubArtifactBuilder(num_steps=3, at=jump)
    assert Worker(storage, builder, silent).run_once()
    assert winner == [storage.artifacts.current(document.id)]
    assert is_whole(storage, winner[0])
    assert folders(folder) == {winner[0].folder}
    job = latest(storage, document)
    assert (job.status, job.attempt, job.lease_owner) == ("done", 2, None)
    assert status(storage, document) == "ready"


def any_jump_s(rng: random.Random) -> float:
    """Hours, or about as long as leases and delays."""
    return rng.choice((rng.uniform(-HOURS_S, HOURS_S), rng.uniform(-200, 200)))


@pytest.fixture
def pass_time(set_clock: SetClock, monkeypatch: pytest.MonkeyPatch) -> PassTime:
    """Set the clock and let simulated time pass; look every five seconds until there is one.

    Returns: how many seconds passed until then.
    """
    own_s = 0.0
    monkeypatch.setattr("storage.jobs.liveness.monotonic", lambda: own_s)

    def after(jump_s: float, look: Callable[[], object]) -> int:
        nonlocal own_s
        for passed_s in range(0, 3600, 5):
            set_clock(jump_s + passed_s)
            if look():
                return passed_s
            own_s += 5.0
        raise AssertionError(f"stuck by a jump of {jump_s:.0f} s")

    return after


def test_a_dead_workers_lease_ends_soon_after_any_jump(
    storage: Storage, upload: Upload, set_clock: SetClock, pass_time: PassTime
) -> None:
    upload()
    rng = random.Random(3)
    for _ in range(20):
        set_clock(0.0)
        assert storage.jobs.claim("elsewhere", LEASE_S) is not None
        assert storage.jobs.sweep(99) == ()
        passed_s = pass_time(any_jump_s(rng), lambda: storage.jobs.sweep(99))
        assert passed_s <= LEASE_S + LONGEST_DELAY_S + SETTLE_S + 5
        set_clock(-3 * HOURS_S)  # where whatever is queued is due
        job = storage.jobs.claim("worker", LEASE_S)
        assert job is not None
        set_clock(0.0)
        storage.jobs.release(job)


def test_a_job_that_waits_is_due_soon_after_any_jump(
    storage: Storage, upload: Upload, set_clock: SetClock, pass_time: PassTime
) -> None:
    upload()
    rng = random.Random(4)
    for _ in range(20):
        set_clock(0.0)
        job = storage.jobs.claim("worker", LEASE_S)
        assert job is not None
        storage.jobs.release(job, delay_s=rng.uniform(10, LONGEST_DELAY_S))
        assert storage.jobs.claim("worker", LEASE_S) is None
        found: list[JobRecord | None] = []

        def look(found: list[JobRecord | None] = found) -> JobRecord | None:
            found.append(storage.jobs.claim("worker", LEASE_S))
            return found[-1]

        assert pass_time(any_jump_s(rng), look) <= 2 * LONGEST_DELAY_S + 5
        assert found[-1] is not None
        set_clock(0.0)
        storage.jobs.release(found[-1])


# -- what was written before the jump ----------------------------------------------------------


def test_watchers_see_the_job_that_is_active(
    storage: Storage, upload: Upload, set_clock: SetClock
) -> None:
    document = upload()
    read_here(storage)
    set_clock(-HOURS_S)
    queued = storage.jobs.enqueue(document.id)
    assert storage.jobs.latest(document.id) == queued
    job = storage.jobs.claim("worker", LEASE_S)
    assert job is not None
    storage.jobs.progress(job, "prefill", 1, 2)
    assert (latest(storage, document).id, latest(storage, document).phase) == (job.id, "prefill")


def test_a_cache_from_the_future_ends_no_job_of_a_dead_worker(
    storage: Storage, upload: Upload, set_clock: SetClock
) -> None:
    document = upload()
    set_clock(HOURS_S)
    read_here(storage)
    set_clock(0.0)
    storage.jobs.enqueue(document.id)
    for _ in range(3):
        assert storage.jobs.claim("dead", LEASE_S) is not None
        storage.jobs.sweep(3, ["dead"])
    failed = storage.documents.find(document.id)
    assert (failed.status, failed.error_code) == ("failed", "worker_crashed")


@JUMPS
def test_nothing_is_collected_early(
    storage: Storage, upload: Upload, set_clock: SetClock, tmp_path: Path, jump_s: float
) -> None:
    document, other = upload("One."), upload("Two.")
    read_here(storage)
    damaged = storage.artifacts.current(other.id)
    assert damaged is not None
    storage.artifacts.quarantine(damaged)
    (tmp_path / "coming").write_bytes(b"its row is not there yet")
    coming = storage.blobs.put(tmp_path / "coming")
    assert storage.documents.collect_garbage() == 0
    with storage.artifacts.draft(document.id, "another") as draft:
        draft.write("a.bin", b"being written")
        set_clock(jump_s)
        assert storage.documents.collect_garbage() == 0
        assert storage.artifacts.collect_garbage() == 0
    assert coming in set(storage.blobs.keys())


# -- all at once -------------------------------------------------------------------------------


def test_workers_under_a_restless_clock_read_every_document_once(
    storage: Storage,
    upload: Upload,
    set_clock: SetClock,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("workers.sweeper.SWEEP_INTERVAL_S", 0.02)
    documents = [upload(f"Text {number}.") for number in range(12)]
    commits: Counter[str] = Counter()
    stop = threading.Event()
    current = threading.local()

    class Noting(child.StubArtifactBuilder):
        def build(self, path, kind, progress, files):  # type: ignore[no-untyped-def]
            current.name = path.name
            return super().build(path, kind, progress, files)

    def note(step: str) -> None:
        if step == "committed":
            commits[current.name] += 1

    artifacts = Artifacts(storage.db, folder / "artifacts", note)
    noted = Storage(**{**vars(storage), "artifacts": artifacts})
    strict = replace(child.STEADY, max_attempts=3)
    workers = [Worker(noted, Noting(num_steps=5, step_s=0.02), strict) for _ in range(3)]
    threads = [threading.Thread(target=worker.run, args=(stop,)) for worker in workers]
    for moment in (0.0, HOURS_S):  # the first jump is seen for sure, whoever runs when
        set_clock(moment)
        assert storage.jobs.sweep(3) == ()
    for thread in threads:
        thread.start()
    try:
        rng = random.Random(5)
        deadline_s = time.monotonic() + 60
        while {status(storage, document) for document in documents} != {"ready"}:
            assert time.monotonic() < deadline_s
            set_clock(rng.choice((-HOURS_S, 0.0, HOURS_S)))
            time.sleep(rng.uniform(0.02, 0.1))
    finally:
        stop.set()
        for thread in threads:
            thread.join()

    assert commits == {document.blob_key: 1 for document in documents}
    check_one_cache_each(storage, folder, documents)
    for document in documents:
        assert (latest(storage, document).attempt, latest(storage, document).crashes) == (1, 0)
