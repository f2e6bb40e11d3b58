"""Documents over HTTP: upload, list, look at, follow, delete."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Engine, event
from starlette.testclient import TestClient

from app.services.services import Services
from common.errors import DatabaseUnavailable, StorageFull
from tests.app.conftest import SharedApp
from tests.app.seeding import TEXT, StorageSeeder

UNKNOWN_ID = "6f0c3c1e-0000-4000-8000-000000000000"
FIELDS = {
    "id", "object", "filename", "media_type", "num_bytes", "status", "error", "num_tokens",
    "num_pages", "reading_ms", "created_at", "ready_at", "progress", "stored_bytes",
    "resident_bytes", "is_stale", "expires_at", "tier", "pinned", "warnings", "metadata",
    "priority", "replaces",
}  # fmt: skip


def events(text: str) -> list[tuple[str, dict[str, object]]]:
    """The named events of a stream."""
    blocks = [block.split("\n") for block in text.split("\n\n") if block.startswith("event")]
    return [
        (name.removeprefix("event: "), json.loads(data.removeprefix("data: ")))
        for name, data in blocks
    ]


def test_an_upload_is_accepted_and_queued(client: TestClient) -> None:
    response = client.post("/documents", files={"file": ("notes.md", TEXT.encode())})
    document = response.json()
    assert response.status_code == 202
    assert response.headers["location"] == f"/documents/{document['id']}"
    assert set(document) == FIELDS
    assert document["object"] == "document"
    assert document["filename"] == "notes.md"
    assert document["media_type"] == "text/markdown"
    assert document["num_bytes"] == len(TEXT.encode())
    assert document["status"] == "queued"
    assert (document["error"], document["progress"], document["stored_bytes"]) == (None,) * 3
    assert client.get(response.headers["location"]).json() == document


def test_the_same_bytes_are_the_same_document(client: TestClient, seeder: StorageSeeder) -> None:
    first = seeder.upload(client)
    assert seeder.upload(client, name="other-name.txt") == first
    seeder.publish()
    assert client.post("/documents", files={"file": ("b.txt", TEXT.encode())}).json() == (
        client.get(f"/documents/{first}").json()
    )
    assert seeder.storage.jobs.claim("test", 60.0) is None


def test_a_ready_document_tells_its_size(client: TestClient, seeder: StorageSeeder) -> None:
    document = client.get(f"/documents/{seeder.ready(client)}").json()
    assert document["status"] == "ready"
    assert document["num_tokens"] == seeder.cache.num_tokens
    assert document["num_pages"] == 1
    assert document["stored_bytes"] > seeder.cache.kv_bytes
    assert document["ready_at"] >= document["created_at"]
    assert document["progress"] is None


def test_progress_is_shown_while_reading(client: TestClient, seeder: StorageSeeder) -> None:
    document_id = seeder.upload(client)
    job = seeder.storage.jobs.claim("test", 60.0, deadline_s=100.0)
    seeder.storage.jobs.progress(job, "prefill", 512, 2048)
    document = client.get(f"/documents/{document_id}").json()
    assert document["status"] == "reading"
    deadline_at = document["progress"].pop("deadline_at")
    assert deadline_at == int(job.deadline_at.timestamp())
    assert document["progress"] == {"phase": "prefill", "tokens_done": 512, "tokens_total": 2048}


def test_workers_are_told_which_key_uploaded_a_document(
    client: TestClient, seeder: StorageSeeder
) -> None:
    document_id = seeder.upload(client)
    document = seeder.storage.documents.find(UUID(document_id))
    assert document.uploader == seeder.keys["owner"].split("_")[1]
    job = seeder.storage.jobs.latest(document.id)
    assert (job.uploader, job.cost) == (document.uploader, document.num_bytes)


def test_a_failed_document_says_why(client: TestClient, seeder: StorageSeeder) -> None:
    document_id = seeder.upload(client)
    seeder.fail("document_too_long", "It has 9 tokens, the model holds 8.")
    document = client.get(f"/documents/{document_id}").json()
    assert document["status"] == "failed"
    assert document["error"] == {
        "code": "document_too_long",
        "message": "It has 9 tokens, the model holds 8.",
    }


@pytest.mark.parametrize(
    ("name", "content", "status", "code"),
    [
        ("a.txt", b"", 422, "empty_document"),
        ("a.txt", b" \n\t ", 422, "empty_document"),
        ("a.txt", b"\x7fELF\x02\x01\x01" + bytes(range(256)) * 9, 415, "unsupported_type"),
        ("a.png", b"\x89PNG\r\n\x1a\n" + bytes(99), 415, "unsupported_type"),
        ("a.exe", b"text", 415, "unsupported_type"),
        ("a.docx", b"%PDF-1.7 not a docx", 415, "unsupported_type"),
        ("a.txt", b"x" * 100_001, 413, "upload_too_large"),
    ],
)
def test_what_cannot_be_read_is_refused_at_once(
    client: TestClient, name: str, content: bytes, status: int, code: str
) -> None:
    response = client.post("/documents", files={"file": (name, content)})
    assert response.status_code == status
    assert response.json()["error"]["code"] == code
    assert client.get("/documents").json()["data"] == []


def test_nothing_stays_behind_after_an_upload(client: TestClient, services: Services) -> None:
    client.post("/documents", files={"file": ("a.txt", TEXT.encode())})
    client.post("/documents", files={"file": ("a.txt", b"")})
    assert list((services.data_dir / "incoming").iterdir()) == []


def test_names_are_labels(client: TestClient) -> None:
    files = {"file": ("../../etc/pass\u200bwd\u202e.txt", TEXT.encode())}
    response = client.post("/documents", files=files)
    assert response.json()["filename"].endswith("passwd.txt")
    assert "/" not in response.json()["filename"]


def test_pages_of_the_list(client: TestClient, seeder: StorageSeeder) -> None:
    made = [seeder.upload(client, f"text number {number}") for number in range(6)]
    seen, after, has_more = [], None, []
    while True:
        query = {"limit": "2"} | ({"after": after} if after else {})
        page = client.get("/documents", params=query).json()
        assert set(page) == {"object", "data", "has_more", "first_id", "last_id"}
        seen += [document["id"] for document in page["data"]]
        assert page["first_id"] == page["data"][0]["id"]
        after = page["last_id"]
        has_more.append(page["has_more"])
        if not page["has_more"]:
            break
    assert seen == made[::-1]
    assert has_more == [True, True, False]  # after a full last page there is none


def test_the_list_goes_on_after_a_document_that_was_deleted(
    client: TestClient, seeder: StorageSeeder
) -> None:
    made = [seeder.upload(client, f"text number {number}") for number in range(4)]
    page = client.get("/documents", params={"limit": 2}).json()
    client.delete(f"/documents/{page['last_id']}")
    rest = client.get("/documents", params={"limit": 2, "after": page["last_id"]}).json()
    assert [document["id"] for document in rest["data"]] == [made[1], made[0]]
    assert client.get("/documents", params={"after": UNKNOWN_ID}).status_code == 404


def test_a_missing_original_is_mended_by_the_same_upload(
    client: TestClient, seeder: StorageSeeder, services: Services
) -> None:
    document_id = seeder.upload(client)
    (original,) = (services.data_dir / "blobs").iterdir()
    original.unlink()
    seeder.fail("original_missing", "It is missing.")
    assert client.get(f"/documents/{document_id}").json()["error"]["code"] == "original_missing"
    assert seeder.upload(client) == document_id
    assert client.get(f"/documents/{document_id}").json()["status"] == "queued"
    (original,) = (services.data_dir / "blobs").iterdir()
    assert original.read_text() == TEXT


@contextmanager
def counted_statements() -> Iterator[list[str]]:
    """Fill a list with the SQL statements that the block executes."""
    statements: list[str] = []

    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        statements.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def test_a_page_takes_as_many_statements_however_many_documents_it_has(
    client: TestClient, seeder: StorageSeeder
) -> None:
    for number in range(4):
        seeder.ready(client, f"ready text number {number}")
        seeder.upload(client, f"text number {number} that cannot be read")
        seeder.fail("document_too_long", "It has 9 tokens, the model holds 8.")
        seeder.upload(client, f"text number {number} that is being read")
        job = seeder.storage.jobs.claim("test", 60.0)
        seeder.storage.jobs.progress(job, "prefill", number, 9)
    seeder.upload(client, "a text that waits")

    pages = []
    for limit in (4, 13):
        with counted_statements() as statements:
            pages.append(client.get("/documents", params={"limit": limit}).json()["data"])
        selects = [statement for statement in statements if statement.startswith("SELECT")]
        assert len([one for one in selects if "api_keys" not in one]) == 3, selects
    small, large = pages
    assert large[:4] == small
    assert [document["status"] for document in large[:4]] == [
        "queued", "reading", "failed", "ready",
    ]  # fmt: skip
    progress = [one["progress"] for one in large if one["status"] == "reading"]
    assert [one["tokens_done"] for one in progress] == [3, 2, 1, 0]
    assert all(one["stored_bytes"] for one in large if one["status"] == "ready")
    assert large == [client.get(f"/documents/{one['id']}").json() for one in large]


@pytest.mark.parametrize("query", [{"limit": "0"}, {"limit": "101"}, {"limit": "x"}])
def test_a_bad_page_is_refused(shared_app: SharedApp, query: dict[str, str]) -> None:
    response = shared_app.client.get("/documents", params=query)
    assert response.status_code == 422
    assert response.json()["error"]["param"] == "limit"


def test_an_empty_list(client: TestClient) -> None:
    assert client.get("/documents").json() == {
        "object": "list",
        "data": [],
        "has_more": False,
        "first_id": None,
        "last_id": None,
    }


@pytest.mark.parametrize("document_id", [UNKNOWN_ID, "x", "..%2f..", "%00", "0" * 500])
@pytest.mark.parametrize(
    ("method", "tail"), [("GET", ""), ("DELETE", ""), ("GET", "/events"), ("POST", "/ask")]
)
def test_an_unknown_id_is_not_found(
    shared_app: SharedApp, method: str, tail: str, document_id: str
) -> None:
    body = {"question": "When?"} if method == "POST" else None
    response = shared_app.client.request(method, f"/documents/{document_id}{tail}", json=body)
    assert response.status_code == 404


def test_tenants_do_not_see_each_other(
    client: TestClient, seeder: StorageSeeder, other_tenant: dict[str, str]
) -> None:
    mine = seeder.ready(client)
    for method, tail in (("GET", ""), ("DELETE", ""), ("GET", "/events"), ("POST", "/ask")):
        answers = [
            client.request(
                method,
                f"/documents/{document_id}{tail}",
                headers=other_tenant,
                json={"question": "When?"} if method == "POST" else None,
            )
            for document_id in (mine, UNKNOWN_ID)
        ]
        assert [answer.status_code for answer in answers] == [404, 404]
        assert answers[0].json() == answers[1].json()
    assert client.get("/documents", headers=other_tenant).json()["data"] == []
    assert client.get(f"/documents/{mine}").status_code == 200
    theirs = client.post("/documents", files={"file": ("a.txt", TEXT)}, headers=other_tenant).json()
    assert theirs["id"] != mine
    assert theirs["status"] == "queued"  # not even that somebody else has it can be seen


def test_a_deleted_document_is_gone(client: TestClient, seeder: StorageSeeder) -> None:
    document_id = seeder.ready(client)
    assert client.post(f"/documents/{document_id}/ask", json={"question": "Q"}).status_code == 200
    response = client.delete(f"/documents/{document_id}")
    assert response.status_code == 204
    assert response.content == b""
    assert client.get(f"/documents/{document_id}").status_code == 404
    assert client.delete(f"/documents/{document_id}").status_code == 404
    asked = client.post(f"/documents/{document_id}/ask", json={"question": "Q"})
    assert asked.status_code == 404
    assert asked.json()["error"]["code"] == "document_not_found"


def test_deleting_frees_memory(
    client: TestClient, seeder: StorageSeeder, services: Services
) -> None:
    document_id = seeder.ready(client)
    client.post(f"/documents/{document_id}/ask", json={"question": "When?", "max_tokens": 1})
    assert services.resident_documents.occupancy().device.documents == 1
    client.delete(f"/documents/{document_id}")
    assert services.resident_documents.occupancy().device.documents == 0


def test_events_of_a_ready_document_end_at_once(client: TestClient, seeder: StorageSeeder) -> None:
    response = client.get(f"/documents/{seeder.ready(client)}/events")
    assert response.headers["content-type"].startswith("text/event-stream")
    [(name, data)] = events(response.text)
    assert name == "progress"
    assert set(data) == {"status", "phase", "tokens_done", "tokens_total", "error"}
    assert data["status"] == "ready"


def test_events_of_a_failed_document_say_why(client: TestClient, seeder: StorageSeeder) -> None:
    document_id = seeder.upload(client)
    seeder.fail("encrypted_pdf", "It asks for a password.")
    [(_, data)] = events(client.get(f"/documents/{document_id}/events").text)
    assert data["status"] == "failed"
    assert data["error"] == {"code": "encrypted_pdf", "message": "It asks for a password."}


@pytest.mark.parametrize(
    ("error", "status"),
    [(DatabaseUnavailable("Away."), 503), (StorageFull("Full."), 507)],
)
def test_passing_faults_of_storage_have_their_status(
    client: TestClient, services: Services, error: Exception, status: int, monkeypatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(services.storage.documents, "add", fail)
    response = client.post("/documents", files={"file": ("a.txt", TEXT.encode())})
    assert response.status_code == status
    assert int(response.headers["retry-after"]) > 0


def test_a_stopping_server_takes_no_uploads(client: TestClient, services: Services) -> None:
    services.question_queue.drain()
    response = client.post("/documents", files={"file": ("a.txt", TEXT.encode())})
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "shutting_down"
