"""Secrets and texts of users never appear in logs, errors, or responses that others can get."""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from starlette.testclient import TestClient
from structlog.testing import capture_logs

from app.factory import create_app
from app.services.services import Services
from engine.decode.answer import TextDelta
from tests.app.engines import with_script
from tests.app.seeding import TEXT, StorageSeeder

DOCUMENT, QUESTION, NAME, WRONG_KEY, PASSWORD = (
    f"canary-{bird}" for bird in ("heron", "magpie", "plover", "wagtail", "bunting")
)

ORIGIN = {"origin": "http://testserver"}


def breaks(_: object, question: str, **__: object) -> Iterator[TextDelta]:
    """An engine whose error quotes what it was given."""
    yield TextDelta("The ga")
    raise RuntimeError(f"cannot answer {question} about {DOCUMENT}")


def test_no_secret_is_logged_or_sent(
    services: Services, seeder: StorageSeeder, password: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.WARNING, "httpx2")  # the client's own
    headers, responses = seeder.headers(), []
    secrets = [DOCUMENT, QUESTION, NAME, WRONG_KEY, PASSWORD, password]
    secrets.append(headers["authorization"].removeprefix("Bearer "))

    app = create_app(with_script(services, breaks))
    with capture_logs() as logs, TestClient(app, raise_server_exceptions=False) as client:
        client.headers.update(headers)
        document_id = seeder.upload(client, f"{TEXT} {DOCUMENT}", f"{NAME}.txt")
        seeder.publish()
        asked = {"question": f"Where is {QUESTION}?"}
        path = f"/documents/{document_id}/ask"
        for body in (asked, asked | {"stream": True}, asked | {"budget": DOCUMENT}):
            responses.append(client.post(path, json=body))
        responses.append(client.get("/documents", headers={"authorization": f"Bearer {WRONG_KEY}"}))
        responses.append(client.get(f"/documents/{NAME}"))
        responses.append(client.post("/admin/login", data={"password": PASSWORD}, headers=ORIGIN))
        files = {"file": (f"{NAME}.bin", bytes(range(256)) + DOCUMENT.encode())}
        responses.append(client.post("/documents", files=files))
        responses += [client.get(probe) for probe in ("/healthz", "/readyz")]
    assert [response.status_code for response in responses][:3] == [503, 200, 422]
    seen = repr(logs) + caplog.text + "".join(response.text for response in responses)
    assert "a forward pass failed" in seen, "the fault itself is logged"
    assert [secret for secret in secrets if secret in seen] == []
    with closing(sqlite3.connect(services.data_dir / "lectern.sqlite3")) as database:
        stored = "\n".join(database.iterdump())
    # Of a document, the database keeps its name; of keys and passwords, at most a hash.
    assert [secret for secret in secrets if secret in stored] == [NAME]
