"""Jobs: one owner at a time, and writes of a former owner change nothing."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import update

from common.errors import DocumentDeleted, DocumentNotFound, JobCancelled, LeaseLost
from storage.db.tables import Job
from storage.storage import Storage
from tests.storage.conftest import Upload
from tests.storage.publishing import claim, publish


def shift(storage: Storage, job_id: UUID, **seconds: float) -> None:
    """Move moments of a job, as a clock that jumps would."""
    with storage.db.session() as session:
        now = storage.db.now(session)
        moved = {name: now + timedelta(seconds=delta) for name, delta in seconds.items()}
        session.execute(update(Job).where(Job.id == job_id).values(**moved))


def test_jobs_are_claimed_once_in_the_order_of_uploads(storage: Storage, upload: Upload) -> None:
    documents = [upload(f"Text {number}.") for number in range(3)]
    claimed = [storage.jobs.claim(f"worker {number}", 30) for number in range(4)]
    assert [job and job.document_id for job in claimed] == [*(one.id for one in documents), None]
    assert {job.attempt for job in claimed if job} == {1}
    assert {storage.documents.find(one.id).status for one in documents} == {"reading"}


def test_progress_is_seen(storage: Storage, upload: Upload) -> None:
    document = upload()
    job = claim(storage)
    storage.jobs.progress(job, "prefill", 100, 400)
    seen = storage.jobs.latest(document.id)
    assert seen is not None
    assert (seen.phase, seen.tokens_done, seen.tokens_total) == ("prefill", 100, 400)
    assert (seen.status, seen.lease_owner) == ("running", "worker")


def test_a_live_lease_is_left_alone(storage: Storage, upload: Upload) -> None:
    upload()
    job = claim(storage)
    assert storage.jobs.sweep(3) == ()
    storage.jobs.progress(job, "prefill", 1, 2)


def test_a_heartbeat_keeps_an_expired_lease_that_nobody_took(
    storage: Storage, upload: Upload
) -> None:
    upload()
    job = claim(storage)
    shift(storage, job.id, lease_expires_at=-1)
    storage.jobs.heartbeat(job, 30)
    assert storage.jobs.sweep(3) == ()


def test_an_expired_job_goes_to_the_next_worker_and_the_first_can_write_nothing(
    storage: Storage, upload: Upload
) -> None:
    document = upload()
    first = claim(storage, "first")
    shift(storage, first.id, lease_expires_at=-1)
    assert storage.jobs.sweep(3) == (first.id,)
    assert storage.documents.find(document.id).status == "queued"
    second = claim(storage, "second")
    assert (second.id, second.attempt, second.crashes) == (first.id, 2, 1)
    for write in (
        lambda: storage.jobs.heartbeat(first, 30),
        lambda: storage.jobs.progress(first, "prefill", 9, 9),
        lambda: storage.jobs.finish(first),
        lambda: storage.jobs.fail(first, "code", "message"),
        lambda: storage.jobs.release(first),
        lambda: publish(storage, document, first),
    ):
        with pytest.raises(LeaseLost):
            write()
    seen = storage.jobs.latest(document.id)
    assert seen is not None
    assert (seen.status, seen.phase, seen.lease_owner) == ("running", None, "second")
    assert storage.artifacts.current(document.id) is None
    assert publish(storage, document, second).document_id == document.id


def test_a_job_that_was_swept_cannot_be_written_even_before_it_is_claimed(
    storage: Storage, upload: Upload
) -> None:
    upload()
    job = claim(storage)
    shift(storage, job.id, lease_expires_at=-1)
    storage.jobs.sweep(3)
    with pytest.raises(LeaseLost):
        storage.jobs.progress(job, "prefill", 1, 2)


def test_three_crashes_park_the_job(storage: Storage, upload: Upload) -> None:
    document = upload()
    for crash in range(3):
        job = claim(storage)
        assert job.crashes == crash
        shift(storage, job.id, lease_expires_at=-1)
        storage.jobs.sweep(3)
    assert storage.jobs.claim("worker", 30) is None
    parked = storage.documents.find(document.id)
    assert (parked.status, parked.error_code) == ("failed", "worker_crashed")
    assert parked.error_message is not None
    assert "3 times" in parked.error_message
    latest = storage.jobs.latest(document.id)
    assert latest is not None
    assert (latest.status, latest.error_code) == ("failed", "worker_crashed")


def test_a_passing_fault_costs_no_attempt_and_waits(storage: Storage, upload: Upload) -> None:
    document = upload()
    for _ in range(5):
        job = claim(storage)
        assert job.crashes == 0
        storage.jobs.release(job, delay_s=40)
        assert storage.documents.find(document.id).status == "queued"
        assert storage.jobs.claim("worker", 30) is None
        shift(storage, job.id, available_at=0)
    assert claim(storage).attempt == 6


def test_an_unexpected_error_counts_as_a_crash(storage: Storage, upload: Upload) -> None:
    upload()
    storage.jobs.release(claim(storage), crashed=True)
    assert claim(storage).crashes == 1


def test_a_clock_set_back_hangs_no_job(storage: Storage, upload: Upload) -> None:
    upload()
    job = claim(storage)
    shift(storage, job.id, heartbeat_at=7200, lease_expires_at=7230)
    assert storage.jobs.sweep(3) == (job.id,)
    shift(storage, job.id, available_at=7200)
    assert claim(storage).attempt == 2


def test_a_crashed_job_whose_artifact_was_published_is_done(
    storage: Storage, upload: Upload
) -> None:
    document = upload()
    first = claim(storage)
    publish(storage, document, first)
    with storage.db.session() as session:  # as if the job's own row had not been written
        running = {"status": "running", "attempt": 1, "lease_expires_at": storage.db.now(session)}
        session.execute(update(Job).where(Job.id == first.id).values(**running))
    assert storage.jobs.sweep(1) == ()
    latest = storage.jobs.latest(document.id)
    assert latest is not None
    assert latest.status == "done"
    assert storage.documents.find(document.id).status == "ready"


def test_a_crashed_job_is_not_done_by_what_an_earlier_one_has_published(
    storage: Storage, upload: Upload
) -> None:
    document = upload()
    publish(storage, document)
    storage.jobs.enqueue(document.id)
    job = claim(storage)
    shift(storage, job.id, lease_expires_at=-1)
    assert storage.jobs.sweep(3) == (job.id,)
    assert storage.documents.find(document.id).status == "rebuilding"


def test_a_job_whose_artifact_is_there_can_be_finished(storage: Storage, upload: Upload) -> None:
    document = upload()
    publish(storage, document)
    storage.jobs.enqueue(document.id)
    job = claim(storage)
    assert storage.documents.find(document.id).status == "rebuilding"
    storage.jobs.finish(job)
    assert storage.documents.find(document.id).status == "ready"


def test_a_document_has_one_active_job(storage: Storage, upload: Upload) -> None:
    document = upload()
    queued = storage.jobs.enqueue(document.id)
    assert queued == storage.jobs.latest(document.id)
    running = claim(storage)
    assert storage.jobs.enqueue(document.id).id == running.id == queued.id
    with pytest.raises(DocumentNotFound):
        storage.jobs.enqueue(uuid4())


def test_the_latest_jobs_of_several_documents_are_found_at_once(
    storage: Storage, upload: Upload
) -> None:
    read, rebuilding, waiting, never_queued = (
        upload("One."),
        upload("Two."),
        upload("Three."),
        uuid4(),
    )
    for document in (read, rebuilding):
        publish(storage, document)
    storage.jobs.enqueue(rebuilding.id)
    document_ids = [read.id, rebuilding.id, waiting.id, never_queued]
    latest = storage.jobs.latest_of(document_ids)
    assert {key: job.status for key, job in latest.items()} == {
        read.id: "done",
        rebuilding.id: "queued",
        waiting.id: "queued",
    }
    assert [storage.jobs.latest(key) for key in document_ids] == list(map(latest.get, document_ids))
    assert storage.jobs.latest_of([]) == {}


# -- several configurations --------------------------------------------------------------------


def test_a_worker_takes_the_jobs_of_its_own_configuration(storage: Storage, upload: Upload) -> None:
    document = upload()
    publish(storage, document, fingerprint="one")
    two = storage.of("two")
    two.jobs.enqueue(document.id)
    assert storage.of("one").jobs.claim("worker", 30) is None
    job = claim(two)
    assert (job.document_id, job.fingerprint) == (document.id, "two")


def test_a_document_may_be_read_with_two_configurations_at_once(
    storage: Storage, upload: Upload
) -> None:
    document = upload()
    publish(storage, document, fingerprint="before")
    one, two = storage.of("one"), storage.of("two")
    jobs = [one.jobs.enqueue(document.id), two.jobs.enqueue(document.id)]
    assert one.jobs.enqueue(document.id).id == jobs[0].id
    assert [one.jobs.latest(document.id), two.jobs.latest(document.id)] == jobs
    for storage_of in (one, two):
        publish(storage_of, document, fingerprint=storage_of.fingerprint)
        assert storage_of.documents.find(document.id).status == "ready"


def test_what_another_configuration_has_read_ends_no_lost_job(
    storage: Storage, upload: Upload
) -> None:
    document = upload()
    publish(storage, document, fingerprint="before")
    one, two = storage.of("one"), storage.of("two")
    lost = one.jobs.enqueue(document.id)
    claim(one)
    two.jobs.enqueue(document.id)
    publish(two, document, fingerprint="two")
    shift(storage, lost.id, lease_expires_at=-1)
    assert storage.jobs.sweep(3) == (lost.id,)


def test_a_job_that_any_worker_may_do_is_not_doubled(storage: Storage, upload: Upload) -> None:
    document = upload()
    assert storage.of("one").jobs.enqueue(document.id) == storage.jobs.latest(document.id)
    assert claim(storage.of("two")).document_id == document.id


def test_a_job_for_a_configuration_that_nobody_runs_any_more_is_anybodys(
    storage: Storage, upload: Upload
) -> None:
    document = upload()
    publish(storage, document, fingerprint="before")
    one, two = storage.of("one"), storage.of("two")
    one.jobs.enqueue(document.id)
    two.jobs.adopt_orphans(["one", "two"])
    assert two.jobs.claim("worker", 30) is None
    two.jobs.adopt_orphans(["two"])
    assert claim(two).document_id == document.id


# -- order -------------------------------------------------------------------------------------


def claimed_names(storage: Storage, **more: int) -> list[str]:
    names = []
    while (job := storage.jobs.claim("worker", 30, **more)) is not None:
        names.append(storage.documents.find(job.document_id).filename)
    return names


def test_uploaders_take_turns_and_age_decides_between_the_jobs_of_one(
    storage: Storage, upload: Upload
) -> None:
    for number in range(3):
        upload(f"Many {number}.", filename=f"many {number}", uploader="a lot")
    upload("Few.", filename="few", uploader="few")
    upload("Nobody.", filename="nobody")
    assert claimed_names(storage) == ["nobody", "many 0", "few", "many 1", "many 2"]
    upload("More.", filename="more", uploader="a lot")
    upload("Again.", filename="again", uploader="few")
    assert claimed_names(storage) == ["again", "more"], "few was served before many was"


def test_tenants_take_turns_however_many_documents_and_keys_one_of_them_has(
    storage: Storage, upload: Upload
) -> None:
    crow, owl = storage.tenants.create("crow"), storage.tenants.create("owl")
    for number in range(4):
        upload(f"{number}", owner=crow, filename=f"crow {number}", uploader=f"key {number % 2}")
    upload("Owl's.", owner=owl, filename="owl", uploader="owl")
    first = storage.jobs.claim("worker", 30)
    assert first is not None
    names = [storage.documents.find(first.document_id).filename, *claimed_names(storage)]
    assert "owl" in names[:2]
    assert [name for name in names if name != "owl"] == [f"crow {number}" for number in range(4)]
    upload("Crow's.", owner=crow, filename="crow 4", uploader="a new key")
    upload("Owl's, too.", owner=owl, filename="owl 1", uploader="owl")
    assert claimed_names(storage) == ["owl 1", "crow 4"], "a new key is no new turn"


def test_a_tenant_that_deletes_what_was_read_keeps_its_place(
    storage: Storage, upload: Upload
) -> None:
    crow, owl = storage.tenants.create("crow"), storage.tenants.create("owl")
    upload("Owl's.", owner=owl)
    claimed_names(storage)
    storage.documents.delete(crow, upload("Crow's.", owner=crow).id)
    read = upload("Crow's, read.", owner=crow)
    claimed_names(storage)
    storage.documents.delete(crow, read.id)
    upload("Crow's, again.", owner=crow, filename="crow")
    upload("Owl's, again.", owner=owl, filename="owl")
    assert claimed_names(storage) == ["owl", "crow"]


def test_within_a_tenant_priority_decides(storage: Storage, upload: Upload) -> None:
    crow, owl = storage.tenants.create("crow"), storage.tenants.create("owl")
    for number in range(3):
        upload(f"{number}", owner=crow, filename=f"crow {number}")
    asked = upload("Asked.", owner=crow, filename="asked")
    upload("Owl's.", owner=owl, filename="owl")
    storage.jobs.enqueue(asked.id, priority=1)
    names = claimed_names(storage)
    assert "owl" in names[:2], "another tenant's priority is nothing to this one"
    assert [name for name in names if name != "owl"] == ["asked", "crow 0", "crow 1", "crow 2"]


def test_documents_of_a_suspended_tenant_wait(storage: Storage, upload: Upload) -> None:
    crow = storage.tenants.create("crow")
    upload("Crow's.", owner=crow, filename="crow")
    storage.tenants.suspend(crow)
    upload("A text.", filename="ours")
    assert claimed_names(storage) == ["ours"]
    assert storage.jobs.queue_state().oldest_wait_s == 0
    storage.tenants.resume(crow)
    assert claimed_names(storage) == ["crow"]


def test_a_worker_of_light_jobs_leaves_the_others(storage: Storage, upload: Upload) -> None:
    upload("A long text. " * 50, filename="heavy")
    upload("A text.", filename="light")
    assert claimed_names(storage, most_cost=100) == ["light"]
    assert claimed_names(storage) == ["heavy"]


def test_a_job_that_turned_out_heavy_is_no_longer_light(storage: Storage, upload: Upload) -> None:
    upload("A text.", filename="light")
    job = storage.jobs.claim("worker", 30, most_cost=100)
    assert job is not None
    storage.jobs.release(job, cost=1000)
    assert claimed_names(storage, most_cost=100) == []
    assert claimed_names(storage) == ["light"]


def test_it_is_told_whether_others_wait(storage: Storage, upload: Upload) -> None:
    upload("Mine.", uploader="me")
    job = claim(storage)
    upload("Mine, too.", uploader="me")
    upload("A long text. " * 50, uploader="you")
    assert not storage.jobs.do_others_wait(job, most_cost=100)
    upload("Yours.", uploader="you")
    assert storage.jobs.do_others_wait(job, most_cost=100)


# -- deadlines ---------------------------------------------------------------------------------


def test_a_running_job_tells_when_it_is_given_up(storage: Storage, upload: Upload) -> None:
    document = upload()
    job = storage.jobs.claim("worker", 30, deadline_s=60)
    assert job is not None
    assert job.started_at is not None
    assert job.deadline_at == job.started_at + timedelta(seconds=60)
    storage.jobs.heartbeat(job, 30, deadline_s=500)
    later = storage.jobs.latest(document.id)
    assert later is not None
    assert later.deadline_at is not None
    assert later.deadline_at > job.deadline_at + timedelta(seconds=400)
    storage.jobs.release(job)
    waiting = storage.jobs.latest(document.id)
    assert waiting is not None
    assert waiting.deadline_at is None


def test_a_worker_can_ask_whether_a_job_is_still_its_own(storage: Storage, upload: Upload) -> None:
    document = upload()
    job = claim(storage)
    storage.jobs.check(job)
    storage.jobs.cancel(document.id)
    with pytest.raises(JobCancelled):
        storage.jobs.check(job)
    storage.documents.delete(document.tenant_id, document.id)
    with pytest.raises(DocumentDeleted):
        storage.jobs.check(job)
