"""What becomes of a document when reading goes well, and in each way that it does not."""

import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import update
from structlog.testing import capture_logs

from cli.listener import CannotServe
from cli.worker_metrics import counted_readings
from common import errors
from common.errors import (
    ArchiveBomb,
    Busy,
    DatabaseUnavailable,
    DocumentNotFound,
    DocumentRejected,
    DocumentTooLong,
    EmptyDocument,
    EncryptedPdf,
    GpuBusy,
    StorageFull,
    UnknownEncoding,
    UnsupportedModel,
    UnsupportedType,
)
from common.spans import Span, ignore_spans
from storage.db.records import JobRecord
from storage.db.tables import Job
from storage.storage import Storage
from tests.workers.conftest import QUICK, StubArtifactBuilder, Upload, wait_for
from workers.config import WorkerConfig
from workers.reading_metrics import ReadingMetrics
from workers.worker import Worker

SECRET = "xylophone"
Fault = type[errors.LecternError]


def latest(storage: Storage, document_id: UUID) -> JobRecord:
    job = storage.jobs.latest(document_id)
    assert job is not None
    return job


def hurry(storage: Storage) -> None:
    """Let jobs that were put off be due."""
    with storage.db.session() as session:
        session.execute(update(Job).values(available_at=storage.db.now(session)))


def take_over(storage: Storage) -> JobRecord:
    """Do what happens when a worker is silent for longer than its lease."""
    for _ in range(20):  # a heartbeat may come between expiry and sweep
        with storage.db.session() as session:
            past = storage.db.now(session) - timedelta(seconds=1)
            session.execute(update(Job).values(lease_expires_at=past))
        if storage.jobs.sweep(99):
            break
    job = storage.jobs.claim("another", 30)
    assert job is not None
    return job


@contextmanager
def running(worker: Worker) -> Iterator[threading.Event]:
    """Run a worker on a thread."""
    stop = threading.Event()
    thread = threading.Thread(target=worker.run, args=(stop,))
    thread.start()
    try:
        yield stop
    finally:
        stop.set()
        thread.join()


# -- it goes well ------------------------------------------------------------------------------


def test_a_document_is_read_and_published(
    storage: Storage, worker: Worker, builder: StubArtifactBuilder, upload: Upload
) -> None:
    document = upload("one two three")
    builder.during = lambda word: time.sleep(0.01)
    assert worker.run_once()
    ready = storage.documents.find(document.id)
    assert (ready.status, ready.num_tokens, ready.num_pages) == ("ready", 3, 1)
    assert ready.reading_ms is not None
    assert ready.reading_ms >= 20
    artifact = storage.artifacts.current(document.id)
    assert artifact is not None
    assert (artifact.fingerprint, artifact.kv_bytes) == ("now", 64)
    files = dict(storage.artifacts.load(artifact).files)
    assert files == {"document.bin": b"one two three", "layer.bin": b"cache"}
    assert latest(storage, document.id).status == "done"
    assert not worker.run_once(), "nothing is left to do"


def test_progress_reaches_the_job_while_it_is_read_and_never_goes_back(
    storage: Storage, worker: Worker, builder: StubArtifactBuilder, upload: Upload
) -> None:
    document = upload("word " * 10)
    seen: list[tuple[str | None, int, int]] = []

    def look(word: int) -> None:
        job = latest(storage, document.id)
        seen.append((job.phase, job.tokens_done, job.tokens_total))
        time.sleep(0.21)

    builder.during = look
    builder.during_phase = lambda: look(0)
    worker.run_once()
    assert seen[:4] == [(None, 0, 0), ("prefill", 0, 10), ("prefill", 1, 10), ("prefill", 1, 10)]
    assert {total for _, _, total in seen[1:]} == {10}
    done = [tokens for _, tokens, _ in seen]
    assert done == sorted(done)
    assert seen[-1][0] == "calibrate"
    assert 6 < done[-1] < 10
    end = latest(storage, document.id)
    assert (end.phase, end.tokens_done, end.tokens_total) == ("pack", 10, 10)
    state = storage.read_state(document.id)
    assert state is not None
    assert (state.status, state.tokens_done, state.tokens_total) == ("ready", 10, 10)


def test_many_short_steps_are_not_many_writes(
    storage: Storage, worker: Worker, upload: Upload, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload("word " * 2000)
    writes: list[str] = []
    original = storage.jobs.progress

    def count(job: JobRecord, phase: str, done: int, total: int) -> None:
        writes.append(phase)
        original(job, phase, done, total)

    monkeypatch.setattr(storage.jobs, "progress", count)
    worker.run_once()
    assert {"prefill", "calibrate", "pack"} <= set(writes)
    assert len(writes) < 200


def test_a_job_whose_artifact_is_current_is_finished_and_not_read_again(
    storage: Storage, worker: Worker, builder: StubArtifactBuilder, upload: Upload
) -> None:
    document = upload()
    worker.run_once()
    storage.jobs.enqueue(document.id)
    assert worker.run_once()
    assert len(builder.texts) == 1
    assert storage.documents.find(document.id).status == "ready"


def test_a_worker_with_other_settings_reads_what_is_asked_for_and_keeps_the_rest(
    storage: Storage, worker: Worker, builder: StubArtifactBuilder, upload: Upload
) -> None:
    asked, other = upload("one"), upload("two")
    worker.run_once()
    worker.run_once()
    first = storage.artifacts.current(asked.id)
    builder.fingerprint = "changed"
    changed = storage.of("changed")
    with running(worker):
        time.sleep(0.1)
        assert len(builder.texts) == 2, "the start reads nothing again"
        changed.jobs.enqueue(asked.id)
        wait_for(lambda: changed.artifacts.current(asked.id) is not None)
    assert changed.artifacts.current(other.id) is None
    assert storage.artifacts.current(asked.id) == first
    assert storage.documents.find(asked.id).status == "ready"
    assert len(builder.texts) == 3


def test_a_ring_starts_an_idle_worker_at_once(
    storage: Storage, builder: StubArtifactBuilder, upload: Upload
) -> None:
    idle = Worker(storage, builder, replace(QUICK, poll_s=60.0))
    with running(idle) as stop:
        time.sleep(0.1)
        document = upload()
        storage.notifier.notify_workers()
        wait_for(lambda: storage.documents.find(document.id).status == "ready")
        stop.set()
        storage.notifier.notify_workers()


# -- the document's own fault ------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        DocumentRejected,
        EmptyDocument,
        UnsupportedType,
        EncryptedPdf,
        ArchiveBomb,
        UnknownEncoding,
        DocumentTooLong,
    ],
)
def test_a_document_that_cannot_be_read_fails_at_once_with_its_code(
    storage: Storage, worker: Worker, builder: StubArtifactBuilder, upload: Upload, fault: Fault
) -> None:
    document = upload()
    builder.fault = fault("A sentence for its owner.")
    worker.run_once()
    failed = storage.documents.find(document.id)
    assert (failed.status, failed.error_code) == ("failed", fault.code)
    assert failed.error_message == "A sentence for its owner."
    assert latest(storage, document.id).status == "failed"
    assert not worker.run_once()


def test_a_missing_original_is_told(storage: Storage, worker: Worker, upload: Upload) -> None:
    document = upload()
    storage.blobs.delete(document.blob_key)
    worker.run_once()
    assert storage.documents.find(document.id).error_code == "original_missing"


# -- passing faults ----------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [StorageFull, DatabaseUnavailable, Busy])
def test_a_passing_fault_is_waited_out_and_costs_no_attempt(
    storage: Storage, worker: Worker, builder: StubArtifactBuilder, upload: Upload, fault: Fault
) -> None:
    document = upload()
    builder.fault = fault("Try again.")
    for _ in range(5):
        assert worker.run_once()
        assert not worker.run_once(), "it waits before it tries again"
        hurry(storage)
    assert storage.documents.find(document.id).status == "queued"
    assert latest(storage, document.id).crashes == 0
    builder.fault = None
    worker.run_once()
    assert storage.documents.find(document.id).status == "ready"


def test_a_full_disk_leaves_no_half_artifact(
    storage: Storage,
    worker: Worker,
    builder: StubArtifactBuilder,
    upload: Upload,
    tmp_path: Any,
) -> None:
    document = upload()
    builder.payload = bytes(9_000_000)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8_000_000, before[1]))
    try:
        with capture_logs() as logs:
            worker.run_once()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "storage_full" in {line.get("reason") for line in logs}
    assert list((tmp_path / "data" / "artifacts").iterdir()) == []
    assert storage.documents.find(document.id).status == "queued"
    hurry(storage)
    worker.run_once()
    assert storage.documents.find(document.id).status == "ready"


def test_reading_goes_on_while_the_database_takes_no_progress(
    storage: Storage, worker: Worker, upload: Upload, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = upload()

    def away(*_: object) -> None:
        raise DatabaseUnavailable("away")

    monkeypatch.setattr(storage.jobs, "progress", away)
    worker.run_once()
    assert storage.documents.find(document.id).status == "ready"


def test_an_outcome_is_written_once_the_database_is_back(
    storage: Storage, worker: Worker, builder: StubArtifactBuilder, upload: Upload, monkeypatch: Any
) -> None:
    document = upload()
    builder.fault = EmptyDocument("No text.")
    original, calls = storage.jobs.fail, []

    def away_once(job: JobRecord, code: str, message: str) -> None:
        calls.append(code)
        if len(calls) == 1:
            raise DatabaseUnavailable("away")
        original(job, code, message)

    monkeypatch.setattr(storage.jobs, "fail", away_once)
    monkeypatch.setattr("workers.job_run.OUTCOME_RETRIES_S", (0.0, 0.0))
    worker.run_once()
    assert storage.documents.find(document.id).error_code == "empty_document"


def test_a_full_gpu_is_tried_again_and_not_for_ever(
    storage: Storage, worker: Worker, builder: StubArtifactBuilder, upload: Upload
) -> None:
    document = upload()
    builder.fault = GpuBusy("Full.")
    for _ in range(3):
        assert storage.documents.find(document.id).status == "queued"
        worker.run_once()
        assert not worker.run_once(), "it waits before it tries again"
        hurry(storage)
    failed = storage.documents.find(document.id)
    assert (failed.status, failed.error_code) == ("failed", "document_too_large_for_gpu")
    assert "more memory" in str(failed.error_message)


# -- surprises ---------------------------------------------------------------------------------


def test_an_unexpected_error_is_tried_again_and_then_told_plainly(
    storage: Storage, worker: Worker, builder: StubArtifactBuilder, upload: Upload
) -> None:
    def break_down(word: int) -> None:
        raise RuntimeError(f"cannot multiply {SECRET}")

    document = upload(f"a {SECRET} b")
    builder.during = break_down
    with capture_logs() as logs:
        for attempt in range(1, 4):
            assert storage.documents.find(document.id).status == "queued"
            worker.run_once()
            hurry(storage)
            assert latest(storage, document.id).attempt == attempt
    assert not worker.run_once()
    failed = storage.documents.find(document.id)
    assert (failed.status, failed.error_code) == ("failed", "internal_error")
    assert failed.error_message is not None
    assert "not the document's own" in failed.error_message
    assert "RuntimeError" not in failed.error_message
    traces = [line["trace"] for line in logs if "trace" in line]
    assert len(traces) == 3
    assert "break_down" in traces[0]
    assert all(line["document_id"] == str(document.id) for line in logs)


def test_no_text_of_a_document_reaches_the_log(
    storage: Storage, worker: Worker, builder: StubArtifactBuilder, upload: Upload
) -> None:
    def break_down(word: int) -> None:
        try:
            raise KeyError(SECRET)
        except KeyError as error:
            raise ValueError(SECRET) from error

    upload(f"a {SECRET} b")
    with capture_logs() as logs:
        builder.during = break_down
        worker.run_once()
        hurry(storage)
        builder.during = lambda word: None
        worker.run_once()
    assert len(logs) >= 2
    assert SECRET not in repr(logs)
    assert "ValueError from KeyError" in repr(logs)


def test_a_model_that_cannot_be_loaded_fails_no_document(storage: Storage, upload: Upload) -> None:
    class NoModel(StubArtifactBuilder):
        @property
        def fingerprint(self) -> str:
            raise UnsupportedModel("No such model.")

        @fingerprint.setter
        def fingerprint(self, value: str) -> None: ...

    document = upload()
    worker = Worker(storage, NoModel(), QUICK)
    with pytest.raises(UnsupportedModel):
        worker.run_once()
    with pytest.raises(UnsupportedModel):
        worker.run(threading.Event())
    job = latest(storage, document.id)
    assert (job.status, job.attempt) == ("queued", 0)


# -- the job is no longer ours -----------------------------------------------------------------


def test_a_lost_lease_stops_the_reading(
    storage: Storage, worker: Worker, builder: StubArtifactBuilder, upload: Upload
) -> None:
    document = upload("word " * 1000)
    other: list[JobRecord] = []
    words: list[int] = []

    def lose(word: int) -> None:
        words.append(word)
        if word == 3:
            other.append(take_over(storage))
        if word > 3:
            time.sleep(0.01)

    builder.during = lose
    worker.run_once()
    assert len(words) < 1000
    assert storage.artifacts.current(document.id) is None
    assert latest(storage, document.id) == other[0]
    storage.jobs.progress(other[0], "prefill", 1, 2)


def test_a_lease_lost_at_the_very_end_publishes_nothing(
    storage: Storage, builder: StubArtifactBuilder, upload: Upload, tmp_path: Any
) -> None:
    slow = WorkerConfig(heartbeat_s=60.0)  # it does not notice by itself
    document = upload("one two")
    other: list[JobRecord] = []

    def take_at_the_end(word: int) -> None:
        if word == 1:
            other.append(take_over(storage))

    builder.during = take_at_the_end
    Worker(storage, builder, slow).run_once()
    assert storage.artifacts.current(document.id) is None
    assert list((tmp_path / "data" / "artifacts").iterdir()) == []
    assert latest(storage, document.id) == other[0]


@pytest.mark.parametrize("how", ["delete", "cancel"])
def test_a_document_that_goes_stops_its_reading(
    storage: Storage,
    worker: Worker,
    builder: StubArtifactBuilder,
    upload: Upload,
    tmp_path: Any,
    how: str,
) -> None:
    document = upload("word " * 1000)
    words: list[int] = []

    def go(word: int) -> None:
        words.append(word)
        time.sleep(0.01 if word else 0)
        if word == 1 and how == "delete":
            storage.documents.delete(document.tenant_id, document.id)
        elif word == 1:
            storage.jobs.cancel(document.id)

    builder.during = go
    worker.run_once()
    assert len(words) < 1000
    assert list((tmp_path / "data" / "artifacts").iterdir()) == []
    if how == "cancel":
        assert storage.documents.find(document.id).error_code == "cancelled"
        return
    with pytest.raises(DocumentNotFound):
        storage.documents.find(document.id)
    assert list((tmp_path / "data" / "blobs").iterdir()) == []


def test_a_stopping_worker_gives_its_document_back_at_once(
    storage: Storage, worker: Worker, builder: StubArtifactBuilder, upload: Upload
) -> None:
    document = upload("word " * 1000)
    begun = threading.Event()

    def linger(word: int) -> None:
        begun.set()
        time.sleep(0.01)

    builder.during = linger
    with running(worker) as stop:
        assert begun.wait(10)
        stop.set()
    job = latest(storage, document.id)
    assert (job.status, job.crashes) == ("queued", 0)
    assert storage.documents.find(document.id).status == "queued"
    builder.during = lambda word: None
    assert Worker(storage, builder, QUICK).run_once(), "it is due without a wait"
    assert storage.documents.find(document.id).status == "ready"


# -- deadlines ---------------------------------------------------------------------------------


def test_a_document_that_takes_too_long_fails_at_its_deadline(
    storage: Storage, builder: StubArtifactBuilder, upload: Upload
) -> None:
    document = upload("word " * 3)
    builder.during = lambda word: time.sleep(0.3)
    hasty = replace(QUICK, deadline_base_s=0.25, deadline_factor=0.001)
    Worker(storage, builder, hasty).run_once()
    failed = storage.documents.find(document.id)
    assert (failed.status, failed.error_code) == ("failed", "reading_timeout")
    assert "deadline" in str(failed.error_message)
    assert latest(storage, document.id).status == "failed"


def test_a_deadline_is_kept_though_the_work_does_not_notice(
    storage: Storage, builder: StubArtifactBuilder, upload: Upload
) -> None:
    document = upload("word")
    go_on = threading.Event()
    builder.during = lambda word: go_on.wait(60)
    hasty = Worker(storage, builder, replace(QUICK, deadline_base_s=0.1, deadline_factor=0.001))
    thread = threading.Thread(target=hasty.run_once)
    thread.start()
    try:
        wait_for(lambda: storage.documents.find(document.id).status == "failed")
        assert storage.documents.find(document.id).error_code == "reading_timeout"
        assert storage.jobs.sweep(3) == ()
    finally:
        go_on.set()
        thread.join()
    assert storage.artifacts.current(document.id) is None


def test_the_deadline_follows_from_the_length_and_is_told(
    storage: Storage, builder: StubArtifactBuilder, upload: Upload
) -> None:
    document = upload("word " * 50)
    told: list[float] = []

    def look(word: int) -> None:
        job = latest(storage, document.id)
        assert job.deadline_at is not None
        assert job.started_at is not None
        told.append((job.deadline_at - job.started_at).total_seconds())

    builder.during = look
    long_beats = replace(QUICK, heartbeat_s=60.0, deadline_base_s=100.0, deadline_factor=2.0)
    Worker(storage, builder, long_beats).run_once()
    assert told[0] == pytest.approx(100, abs=5), "before the length is known"
    assert told[1] == pytest.approx(100 + 2 * 50, abs=5), "a second for each of 50 tokens, twice"
    assert latest(storage, document.id).deadline_at is None


# -- light documents ---------------------------------------------------------------------------


def test_a_light_document_need_not_wait_for_a_heavy_one(
    storage: Storage, builder: StubArtifactBuilder, upload: Upload
) -> None:
    heavy = upload("word " * 100)
    go_on = threading.Event()

    def hold(word: int) -> None:
        if builder.texts[-1].startswith("word"):
            go_on.wait(60)

    builder.during = hold
    with running(Worker(storage, builder, replace(QUICK, light_bytes=100))):
        wait_for(lambda: storage.documents.find(heavy.id).status == "reading")
        light = upload("a light one")
        wait_for(lambda: storage.documents.find(light.id).status == "ready")
        assert storage.documents.find(heavy.id).status == "reading"
        go_on.set()
        wait_for(lambda: storage.documents.find(heavy.id).status == "ready")


def test_a_light_document_that_takes_long_makes_room_for_those_of_others(
    storage: Storage, builder: StubArtifactBuilder, upload: Upload
) -> None:
    slow = upload("slow " * 3, uploader="somebody")
    go_on = threading.Event()

    def hold(word: int) -> None:
        while builder.texts[-1].startswith("slow") and not go_on.wait(0.01):
            builder.progress("prefill", 0, 3)

    builder.during = hold
    settings = replace(QUICK, light_bytes=100, light_turn_s=0.1)
    worker = Worker(storage, builder, settings)
    thread = threading.Thread(target=worker.run_once, kwargs={"is_light": True})
    thread.start()
    wait_for(lambda: builder.texts)
    upload("of the same", uploader="somebody")
    time.sleep(1.0)
    assert thread.is_alive(), "only others count"
    light = upload("a light one", uploader="somebody else")
    thread.join(20)
    job = latest(storage, slow.id)
    assert (job.status, job.cost, job.crashes) == ("queued", 101, 0)
    assert worker.run_once(is_light=True)
    assert storage.documents.find(light.id).status == "ready"
    go_on.set()
    while worker.run_once():
        pass
    assert storage.documents.find(slow.id).status == "ready"


# -- ending at once ----------------------------------------------------------------------------


def test_a_worker_that_ends_at_once_leaves_no_job_running(
    storage: Storage, builder: StubArtifactBuilder, upload: Upload
) -> None:
    document = upload("word")
    go_on = threading.Event()
    builder.during = lambda word: go_on.wait(60)
    worker = Worker(storage, builder, QUICK)
    thread = threading.Thread(target=worker.run_once)
    thread.start()
    wait_for(lambda: builder.texts)
    worker.abandon()
    job = latest(storage, document.id)
    assert (job.status, job.crashes, job.lease_owner) == ("queued", 0, None)
    go_on.set()
    thread.join()
    assert latest(storage, document.id).status == "queued"
    assert storage.artifacts.current(document.id) is None


def test_a_full_disk_makes_room_among_caches_that_nobody_uses(
    storage: Storage, worker: Worker, builder: StubArtifactBuilder, upload: Upload
) -> None:
    document = upload("one")
    worker.run_once()
    changed = storage.of("changed")
    changed.jobs.enqueue(document.id)
    builder.fingerprint = "changed"

    def fill(self: object, name: str, data: bytes, check: object) -> None:
        raise StorageFull("No space.")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("storage.artifacts.draft.ArtifactDraft.write", fill)
        worker.run_once()
    assert storage.artifacts.current(document.id) is None, "it made room"
    hurry(storage)
    worker.run_once()
    assert changed.documents.find(document.id).status == "ready"


# -- leases ------------------------------------------------------------------------------------


def test_a_job_much_longer_than_its_lease_runs_once(
    storage: Storage, builder: StubArtifactBuilder, upload: Upload
) -> None:
    settings = WorkerConfig(lease_s=0.6, heartbeat_s=0.04)
    document = upload("word " * 30)
    stolen: list[object] = []

    def watch(word: int) -> None:
        time.sleep(0.1)
        stolen.extend(storage.jobs.sweep(3))

    builder.during = watch
    Worker(storage, builder, settings).run_once()
    assert stolen == []
    assert len(builder.texts) == 1
    job = latest(storage, document.id)
    assert (job.status, job.attempt) == ("done", 1)


def test_a_queue_out_of_reach_does_not_end_the_worker(
    storage: Storage, worker: Worker, upload: Upload, monkeypatch: Any
) -> None:
    original, faults = storage.jobs.claim, iter([DatabaseUnavailable("away"), ValueError("bug")])

    def shaky(owner: str, lease_s: float, **more: Any) -> JobRecord | None:
        for fault in faults:
            raise fault
        return original(owner, lease_s, **more)

    monkeypatch.setattr(storage.jobs, "claim", shaky)
    document = upload()
    with running(worker):
        wait_for(lambda: storage.documents.find(document.id).status == "ready")


def test_a_reading_is_told_with_its_phases_and_how_it_ended(
    storage: Storage, builder: StubArtifactBuilder, upload: Upload
) -> None:
    spans: list[Span] = []
    worker = Worker(storage, builder, QUICK, on_span=spans.append)
    builder.during = lambda word: time.sleep(0.01)
    document = upload(f"one two {SECRET}")
    worker.run_once()
    (read,) = spans
    assert (read.name, read.code, read.number("num_tokens")) == ("reading", "ok", 3)
    assert read.attributes["document_id"] == str(document.id)
    assert [stage.name for stage in read.stages] == ["extract", "prefill", "calibrate", "pack"]
    assert sum(stage.duration_s for stage in read.stages) <= read.duration_s
    assert read.stages[0].duration_s >= 0.01
    builder.fault = EncryptedPdf(f"{SECRET} asks for a password.")
    upload("another one")
    worker.run_once()
    assert [span.code for span in spans] == ["ok", "encrypted_pdf"]
    metrics = ReadingMetrics(CollectorRegistry())
    for span in spans:
        metrics.observe_span(span)
    assert SECRET not in repr(spans)


def test_a_worker_process_shows_its_own_metrics(worker: Worker) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with counted_readings("127.0.0.1", port) as count:
        count(Span("reading", 0.0, 2.0, {"num_tokens": 70}, (Span("prefill", 0.0, 1.0),)))
        text = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
        assert "lectern_read_tokens_total 70.0" in text
        with pytest.raises(CannotServe), counted_readings("127.0.0.1", port):
            pass
    with counted_readings("127.0.0.1", 0) as count:
        assert count is ignore_spans
