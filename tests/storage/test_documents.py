"""Documents: unique by tenant and content, listed in pages, gone at once when deleted."""

import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from common.errors import DocumentDeleted, DocumentNotFound, JobCancelled, OriginalMissing
from storage.storage import Storage
from tests.storage.conftest import Upload, send_text
from tests.storage.publishing import claim, publish


def test_an_upload_is_queued_with_its_original(storage: Storage, upload: Upload) -> None:
    document = upload("Some text.", filename="notes.txt")
    assert (document.status, document.filename) == ("queued", "notes.txt")
    assert storage.blobs.path(document.blob_key).read_text() == "Some text."
    with storage.blobs.open(document.blob_key) as file:
        assert hashlib.sha256(file.read()).hexdigest() == document.sha256
    job = storage.jobs.latest(document.id)
    assert job is not None
    assert (job.status, job.attempt) == ("queued", 0)


def test_the_same_content_is_the_same_document(
    storage: Storage, tenant: UUID, tmp_path: Path
) -> None:
    first, queued = send_text(storage, tmp_path, tenant, "Same.", "a.txt")
    second, again = send_text(storage, tmp_path, tenant, "Same.", "b.txt")
    assert (queued, again) == (True, False)
    assert first == second
    assert list(storage.blobs.keys()) == [first.blob_key]


def test_twenty_uploads_at_once_are_one_document_and_one_job(
    storage: Storage, tenant: UUID, tmp_path: Path
) -> None:
    (tmp_path / "upload").write_text("Same.")

    def send(_: int) -> UUID:
        document, _queued = storage.documents.add(
            tenant,
            tmp_path / "upload",
            sha256=hashlib.sha256(b"Same.").hexdigest(),
            filename="a.txt",
            kind="txt",
            media_type="text/plain",
            num_bytes=5,
        )
        return document.id

    with ThreadPoolExecutor(20) as pool:
        ids = set(pool.map(send, range(20)))
    assert len(ids) == 1
    assert len(list(storage.blobs.keys())) == 1
    assert storage.jobs.claim("one", 30) is not None
    assert storage.jobs.claim("two", 30) is None


@pytest.mark.parametrize("has_failed", [True, False])
def test_a_new_upload_takes_the_place_of_an_original_that_was_lost(
    storage: Storage, tenant: UUID, tmp_path: Path, has_failed: bool
) -> None:
    document, _ = send_text(storage, tmp_path, tenant, "Same.")
    storage.blobs.delete(document.blob_key)
    if has_failed:
        storage.jobs.fail(claim(storage), "original_missing", "It is gone.")
    again, queued = send_text(storage, tmp_path, tenant, "Same.")
    assert (again.id, again.status, queued) == (document.id, "queued", has_failed)
    assert storage.blobs.path(again.blob_key).read_text() == "Same."
    assert list(storage.blobs.keys()) == [again.blob_key]
    assert claim(storage).document_id == document.id
    assert storage.jobs.claim("worker", 30) is None


def test_a_document_that_failed_for_another_model_is_ready_where_it_was_read(
    storage: Storage, tenant: UUID, tmp_path: Path
) -> None:
    document, _ = send_text(storage, tmp_path, tenant, "Same.")
    publish(storage, document, fingerprint="one")
    two = storage.of("two")
    two.jobs.enqueue(document.id)
    two.jobs.fail(claim(two), "document_too_long", "Too long.")
    again, queued = send_text(storage.of("one"), tmp_path, tenant, "Same.")
    assert (again.status, queued) == ("ready", False)
    again, queued = send_text(two, tmp_path, tenant, "Same.")
    assert (again.id, queued) == (document.id, True)


def test_no_document_has_a_name_that_no_database_can_hold(
    storage: Storage, upload: Upload, tenant: UUID
) -> None:
    upload("Same.")
    assert storage.documents.named(tenant, "a\x00b", 10) == ()


def test_tenants_share_nothing(storage: Storage, upload: Upload) -> None:
    other = storage.tenants.create("other")
    mine, theirs = upload("Same."), upload("Same.", owner=other)
    assert mine.id != theirs.id
    assert mine.blob_key != theirs.blob_key
    for action in (storage.documents.get, storage.documents.delete):
        with pytest.raises(DocumentNotFound) as foreign:
            action(other, mine.id)
        with pytest.raises(DocumentNotFound) as unknown:
            action(other, uuid4())
        assert str(foreign.value) == str(unknown.value)
    assert storage.documents.find(mine.id) == mine
    assert [found.id for found in storage.documents.list(other, 10)] == [theirs.id]


def test_a_failed_document_that_comes_again_is_queued_again(
    storage: Storage, upload: Upload, tenant: UUID, tmp_path: Path
) -> None:
    document = upload()
    job = storage.jobs.claim("one", 30)
    assert job is not None
    storage.jobs.fail(job, "empty_document", "The file holds no text.")
    failed = storage.documents.get(tenant, document.id)
    assert (failed.status, failed.error_code) == ("failed", "empty_document")
    again, queued = send_text(storage, tmp_path, tenant, "A text.")
    assert queued
    assert (again.id, again.status, again.error_code) == (document.id, "queued", None)
    second = storage.jobs.claim("one", 30)
    assert second is not None
    assert second.id != job.id


def test_pages_are_newest_first_without_gap_or_overlap(
    storage: Storage, upload: Upload, tenant: UUID
) -> None:
    sent = [upload(f"Text {number}.").id for number in range(5)]
    first = storage.documents.list(tenant, 2)
    second = storage.documents.list(tenant, 2, first[-1].id)
    third = storage.documents.list(tenant, 2, second[-1].id)
    assert [found.id for found in (*first, *second, *third)] == sent[::-1]
    with pytest.raises(DocumentNotFound):
        storage.documents.list(tenant, 2, uuid4())


def test_a_page_goes_on_after_a_document_that_was_deleted(
    storage: Storage, upload: Upload, tenant: UUID
) -> None:
    sent = [upload(f"Text {number}.").id for number in range(5)]
    first = storage.documents.list(tenant, 2)
    for document in (*first, storage.documents.get(tenant, sent[0])):
        storage.documents.delete(tenant, document.id)
    rest = storage.documents.list(tenant, 5, first[-1].id)
    assert [found.id for found in rest] == [sent[2], sent[1]]
    other = storage.tenants.create("other")
    assert storage.documents.list(other, 5, sent[2]) == ()


@pytest.mark.parametrize("has_failed", [True, False])
@pytest.mark.parametrize("damage", [os.unlink, lambda path: os.truncate(path, 3)])
def test_an_original_that_is_missing_comes_back_with_the_same_file(
    storage: Storage,
    upload: Upload,
    tenant: UUID,
    tmp_path: Path,
    damage: Callable[[Path], None],
    has_failed: bool,
) -> None:
    document = upload()
    damage(storage.blobs.path(document.blob_key))
    if has_failed:
        job = storage.jobs.claim("one", 30)
        assert job is not None
        storage.jobs.fail(job, "original_missing", "It is missing.")
    again, queued = send_text(storage, tmp_path, tenant, "A text.")
    assert (again.id, again.status, queued) == (document.id, "queued", has_failed)
    found = storage.documents.get(tenant, document.id)
    assert storage.blobs.path(found.blob_key).read_text() == "A text."
    assert list(storage.blobs.keys()) == [found.blob_key]
    assert storage.jobs.claim("two", 30) is not None


def test_a_deleted_document_leaves_nothing(
    storage: Storage, upload: Upload, tenant: UUID, tmp_path: Path
) -> None:
    document = upload()
    publish(storage, document)
    storage.documents.delete(tenant, document.id)
    with pytest.raises(DocumentNotFound):
        storage.documents.find(document.id)
    assert storage.artifacts.current(document.id) is None
    assert storage.jobs.latest(document.id) is None
    files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert files == []
    with pytest.raises(OriginalMissing):
        storage.blobs.path(document.blob_key)


def test_deleting_stops_the_job(storage: Storage, upload: Upload, tenant: UUID) -> None:
    document = upload()
    job = storage.jobs.claim("one", 30)
    assert job is not None
    storage.documents.delete(tenant, document.id)
    with pytest.raises(DocumentDeleted):
        storage.jobs.progress(job, "prefill", 1, 2)
    with pytest.raises(DocumentDeleted):
        storage.jobs.heartbeat(job, 30)
    assert storage.jobs.claim("two", 30) is None


def test_cancelling_stops_the_job(storage: Storage, upload: Upload, tenant: UUID) -> None:
    document = upload()
    job = storage.jobs.claim("one", 30)
    assert job is not None
    assert storage.jobs.cancel(document.id)
    assert not storage.jobs.cancel(document.id)
    with pytest.raises(JobCancelled):
        storage.jobs.progress(job, "prefill", 1, 2)
    stopped = storage.documents.get(tenant, document.id)
    assert (stopped.status, stopped.error_code) == ("failed", "cancelled")


def test_originals_without_a_row_are_collected_once_they_are_old(
    storage: Storage, upload: Upload, tmp_path: Path
) -> None:
    document = upload()
    (tmp_path / "orphan").write_bytes(b"x")
    orphan = storage.blobs.put(tmp_path / "orphan")
    (tmp_path / "data" / "blobs" / f"{uuid4().hex}.part").write_bytes(b"half")
    (tmp_path / "data" / "blobs" / "README").write_bytes(b"another program's file")
    assert storage.documents.collect_garbage() == 0
    assert orphan in set(storage.blobs.keys())
    assert storage.documents.collect_garbage(unclaimed_s=0) == 2
    assert list(storage.blobs.keys()) == [document.blob_key]
    assert (tmp_path / "data" / "blobs" / "README").exists()


def test_an_original_is_on_disk_before_its_row(
    storage: Storage, upload: Upload, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[int] = []
    sync = os.fsync

    def watched(descriptor: int) -> None:
        rows.append(len(storage.documents.list(storage.tenants.default(), 10)))
        sync(descriptor)

    storage.tenants.default()
    monkeypatch.setattr(os, "fsync", watched)
    document = upload()
    monkeypatch.undo()
    assert rows == [0, 0], "the file and its folder"
    assert storage.blobs.path(document.blob_key).exists()
