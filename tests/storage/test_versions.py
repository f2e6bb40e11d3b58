"""New versions of documents, what is noted on them, and which of them is read first."""

from uuid import UUID

import pytest

from common.errors import DocumentNotFound, JobCancelled
from storage.db.records import DocumentRecord
from storage.storage import Storage
from tests.storage.conftest import Upload
from tests.storage.publishing import claim, publish
from workers.sweeper import Sweeper


def names(storage: Storage, tenant: UUID, name: str = "a.txt") -> list[UUID]:
    return [one.id for one in storage.documents.named(tenant, name, 10)]


@pytest.fixture
def old(storage: Storage, upload: Upload) -> DocumentRecord:
    document = upload("The old text.")
    publish(storage, document)
    return document


def test_the_old_version_has_the_name_until_the_new_one_is_ready(
    storage: Storage, tenant: UUID, upload: Upload, old: DocumentRecord
) -> None:
    new = upload("The new text.", filename="other.txt")
    new = storage.documents.replace(tenant, new.id, old.id)
    assert (new.filename, new.replaces_id) == ("a.txt", old.id)
    assert names(storage, tenant) == [old.id]
    job = claim(storage)
    Sweeper(storage, 3).sweep()
    assert storage.documents.find(old.id).status == "ready"
    publish(storage, new, job)
    assert names(storage, tenant) == [new.id], "before the old one is deleted"
    Sweeper(storage, 3).sweep()
    with pytest.raises(DocumentNotFound):
        storage.documents.find(old.id)
    assert storage.documents.find(new.id).replaces_id is None
    assert list(storage.find_traces(old.id)) == []


def test_a_version_that_fails_leaves_the_old_one(
    storage: Storage, tenant: UUID, upload: Upload, old: DocumentRecord
) -> None:
    new = storage.documents.replace(tenant, upload("Unreadable.").id, old.id)
    storage.jobs.fail(claim(storage), "empty_document", "The file holds no text.")
    Sweeper(storage, 3).sweep()
    assert names(storage, tenant) == [old.id]
    assert storage.documents.find(new.id).error_code == "empty_document"


def test_a_version_that_waits_gives_way_to_a_newer_one(
    storage: Storage, tenant: UUID, upload: Upload, old: DocumentRecord
) -> None:
    middle = storage.documents.replace(tenant, upload("The middle text.").id, old.id)
    job = claim(storage)
    newest = storage.documents.replace(tenant, upload("The newest text.").id, middle.id)
    assert newest.replaces_id == old.id
    with pytest.raises((JobCancelled, DocumentNotFound)):
        storage.jobs.check(job)
    publish(storage, newest)
    assert names(storage, tenant) == [newest.id]


def test_another_tenants_document_cannot_be_replaced(
    storage: Storage, tenant: UUID, upload: Upload
) -> None:
    theirs = upload("Theirs.", owner=storage.tenants.create("crow"))
    mine = upload("Mine.")
    with pytest.raises(DocumentNotFound):
        storage.documents.replace(tenant, mine.id, theirs.id)
    assert storage.documents.with_id_like(tenant, str(theirs.id)[:18], 10) in ((), (mine,))


def test_the_highest_priority_of_a_tenant_is_read_first(
    storage: Storage, tenant: UUID, upload: Upload
) -> None:
    first, second, third = (upload(f"Text {number}.") for number in range(3))
    storage.documents.set_priority(tenant, second.id, -1)
    storage.documents.set_priority(tenant, third.id, 2)
    assert [claim(storage).document_id for _ in range(3)] == [third.id, first.id, second.id]


def test_ids_may_be_cut_and_metadata_is_replaced_as_a_whole(
    storage: Storage, tenant: UUID, upload: Upload
) -> None:
    document = upload("Some text.")
    for text in (str(document.id), document.id.hex[:12], str(document.id)[:14].upper()):
        assert [one.id for one in storage.documents.with_id_like(tenant, text, 10)] == [document.id]
    for text in ("", "012", "g" * 8, document.id.hex + "0"):
        assert storage.documents.with_id_like(tenant, text, 10) == ()
    storage.documents.set_metadata(tenant, document.id, {"case": "17"})
    assert storage.documents.find(document.id).user_metadata == {"case": "17"}
    storage.documents.set_metadata(tenant, document.id, None)
    assert storage.documents.find(document.id).user_metadata is None
