"""A file inside a message is stored, read and asked about; and its limits."""

import base64
import threading
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.http.exchange import INLINE_FILE_BYTES
from app.openai.inline_files import decode
from app.services.services import Services
from cli.settings import Settings
from common.errors import InvalidInput
from common.scopes import Scope
from tests.app.live import until
from tests.app.seeding import TEXT, StorageSeeder

DATA = base64.b64encode(TEXT.encode()).decode()


def chat(data: str, filename: str = "gate.txt") -> dict[str, Any]:
    part = {"type": "file", "file": {"file_data": data, "filename": filename}}
    content = [part, {"type": "text", "text": "When does the gate close?"}]
    return {"model": "lectern", "messages": [{"role": "user", "content": content}], "max_tokens": 4}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    server = replace(settings.server, max_upload_bytes=2**23)
    return settings.model_copy(update={"server": server})


@pytest.fixture
def worker(services: Services, seeder: StorageSeeder):
    """Publish what is queued, once, as a worker would."""

    def read() -> None:
        until(lambda: _is_queued(services))
        seeder.publish()

    thread = threading.Thread(target=read, daemon=True)
    yield thread
    if thread.ident is not None:
        thread.join(10)


def _is_queued(services: Services) -> bool:
    return services.storage.jobs.counts().waiting > 0


def test_a_file_in_a_message_is_read_and_asked_about(
    client: TestClient, services: Services, worker: threading.Thread
) -> None:
    worker.start()
    first = client.post("/v1/chat/completions", json=chat(DATA))
    assert first.status_code == 200, first.text
    document_id = first.json()["document_id"]
    document = client.get(f"/documents/{document_id}").json()
    assert (document["filename"], document["status"]) == ("gate.txt", "ready")
    assert document["expires_at"] is not None, "it is kept as long as conversations are"
    response = {
        "model": "lectern",
        "input": [{"role": "user", "content": [
            {"type": "input_file", "file_data": f"data:text/plain;base64,{DATA}", "filename": "b"},
            {"type": "input_text", "text": "When?"},
        ]}],
        "max_output_tokens": 4,
    }  # fmt: skip
    again = client.post("/v1/responses", json=response).json()
    assert again["document_id"] == document_id, "the same data is the same document"


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        ("no base64!", 400, "invalid_input"),
        ("data:text/plain,hello", 400, "invalid_input"),
        ("", 422, "empty_document"),
        (base64.b64encode(bytes(range(256)) * 8).decode(), 415, "unsupported_type"),
        (base64.b64encode(b"a" * (INLINE_FILE_BYTES + 3)).decode(), 413, "upload_too_large"),
    ],
)
def test_what_cannot_be_read_is_refused(
    client: TestClient, services: Services, data: str, status: int, code: str
) -> None:
    refused = client.post("/v1/chat/completions", json=chat(data))
    assert (refused.status_code, refused.json()["error"]["code"]) == (status, code)
    assert not list((services.data_dir / "incoming").glob("*"))
    assert client.get("/documents").json()["data"] == []


def test_a_file_that_fails_is_said_to(
    client: TestClient, services: Services, seeder: StorageSeeder
) -> None:
    def fail() -> None:
        until(lambda: _is_queued(services))
        seeder.fail("document_rejected", "The file is damaged.")

    thread = threading.Thread(target=fail, daemon=True)
    thread.start()
    refused = client.post("/v1/chat/completions", json=chat(DATA))
    thread.join(10)
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "document_failed")


def test_a_key_that_may_not_upload_may_not_do_so_in_a_message(
    client: TestClient, services: Services, seeder: StorageSeeder
) -> None:
    key, _ = services.storage.keys.create(seeder.tenants["owner"], "asks", None, (Scope.ASK,))
    headers = {"authorization": f"Bearer {key}"}
    refused = client.post("/v1/chat/completions", json=chat(DATA), headers=headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "insufficient_scope")


def test_base64_is_decoded_strictly() -> None:
    assert decode(DATA, "messages") == TEXT.encode()
    assert decode(f"data:text/plain;base64,{DATA}", "messages") == TEXT.encode()
    for wrong in ("a", "ab=c", "data:;base64", "data:text/plain;base64"):
        with pytest.raises(InvalidInput):
            decode(wrong, "messages")
