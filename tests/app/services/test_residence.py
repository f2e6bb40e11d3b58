"""Documents that the worker in the server's process hands over before they are stored."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from starlette.testclient import TestClient

from app.admin.actions import act_on_document
from app.services.residence import ServerResidence
from app.services.services import Services
from common.errors import StorageFull
from engine.document.cache import DocumentCache
from engine.residents.documents import ResidentDocuments
from engine.residents.staging import Staging
from engine.residents.transfer import DocumentTransfer
from storage.readable import ReadableDocument
from tests.app.seeding import StorageSeeder

QUESTION = {"question": "When does the gate close?", "max_tokens": 4}


@pytest.fixture
def residence(services: Services) -> ServerResidence:
    return ServerResidence(services.resident_documents, services.storage.readable)


@contextmanager
def handed_over(
    residence: ServerResidence, cache: DocumentCache, document_id: str
) -> Iterator[ReadableDocument]:
    """A document that is being stored."""
    document = ReadableDocument(UUID(document_id), uuid4(), cache.num_tokens, len(cache.pages))
    with (
        residence.room(cache.num_bytes) as room,
        residence.keep(document, replace(cache), room),
    ):
        yield document


def test_a_readable_document_answers_without_a_load(
    client: TestClient, seeder: StorageSeeder, residence: ServerResidence, cache: DocumentCache
) -> None:
    document_id = seeder.upload(client)
    path = f"/documents/{document_id}"
    assert client.post(f"{path}/ask", json=QUESTION).status_code == 409
    with handed_over(residence, cache, document_id):
        body = client.get(path).json()
        assert (body["status"], body["num_tokens"]) == ("readable", cache.num_tokens)
        assert (body["ready_at"], body["stored_bytes"], body["reading_ms"]) == (None, None, None)
        answer = client.post(f"{path}/ask", json=QUESTION)
        assert answer.status_code == 200, answer.text
        assert (answer.json()["cache_hit"], answer.json()["timings_ms"]["load"]) == (True, 0)
        listed = client.get("/documents").json()["data"]
        assert [one["status"] for one in listed] == ["readable"]
    assert client.get(path).json()["status"] == "queued"


def test_nobody_evicts_what_is_not_stored_yet(
    client: TestClient,
    seeder: StorageSeeder,
    services: Services,
    residence: ServerResidence,
    cache: DocumentCache,
) -> None:
    document_id = seeder.upload(client)
    with handed_over(residence, cache, document_id):
        assert client.post(f"/documents/{document_id}/evict").status_code == 202
        act_on_document(services, "evict", UUID(document_id))  # as the operator
        answer = client.post(f"/documents/{document_id}/ask", json=QUESTION)
        assert (answer.status_code, answer.json().get("cache_hit")) == (200, True), answer.text


def test_a_document_that_was_not_stored_leaves_no_trace(
    client: TestClient, seeder: StorageSeeder, residence: ServerResidence, cache: DocumentCache
) -> None:
    document_id = seeder.upload(client)
    with pytest.raises(StorageFull), handed_over(residence, cache, document_id):
        raise StorageFull("No space is left.")
    assert client.post(f"/documents/{document_id}/ask", json=QUESTION).status_code == 409
    assert residence.documents.occupancy().device.documents == 0


def test_a_document_that_was_stored_stays_in_memory(
    client: TestClient, seeder: StorageSeeder, residence: ServerResidence, cache: DocumentCache
) -> None:
    document_id = seeder.upload(client)
    with handed_over(residence, cache, document_id):
        pass
    assert residence.documents.occupancy().device.documents == 1


def test_without_room_a_document_is_read_all_the_same(
    seeder: StorageSeeder, cache: DocumentCache, services: Services, model: object
) -> None:
    full = ResidentDocuments[DocumentCache](
        10, 0, DocumentTransfer(Staging(cache.ids.device, 1 << 20))
    )
    residence = ServerResidence(full, services.storage.readable)
    document = ReadableDocument(uuid4(), uuid4(), 1, 1)
    with residence.room(cache.num_bytes) as room, residence.keep(document, cache, room):
        assert services.storage.readable.find(document.document_id) is None
    del seeder, model
