"""A key that is revoked while the server runs: new requests fail, those under way go on."""

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from app.services.services import Services
from cli.settings import Settings
from engine.decode.answer import Answer, TextDelta
from engine.engine import Engine
from engine.model.loader import LoadedModel
from storage.storage import open_storage
from tests.app.documents.test_routes import events
from tests.app.engines import with_script
from tests.app.seeding import StorageSeeder


@dataclass
class HeldEngine:
    """A real engine, which waits after its first piece until it is let go."""

    engine: Engine
    release: threading.Event = field(default_factory=threading.Event)

    def __call__(self, *given: Any, **options: Any) -> Iterator[TextDelta | Answer]:
        pieces = self.engine.answer(*given, **options)
        yield next(pieces)
        while not self.release.wait(0.01):
            yield TextDelta("")
        yield from pieces


@pytest.fixture
def engine(model: LoadedModel) -> HeldEngine:
    """The engine of the server under test."""
    return HeldEngine(Engine(model))


@pytest.fixture
def services(services: Services, engine: HeldEngine) -> Services:
    """Services whose answers stay under way until the test lets them go."""
    return with_script(services, engine)


@pytest.fixture
def caller(address: str, seeder: StorageSeeder) -> Iterator[httpx.Client]:
    """A client of the running server."""
    with httpx.Client(base_url=address, headers=seeder.headers(), timeout=10) as client:
        yield client


def revoke(settings: Settings, seeder: StorageSeeder, name: str = "owner") -> None:
    """Revoke a tenant's key as another process does, over a connection of its own."""
    with closing(open_storage(settings.storage())) as storage:
        (key,) = storage.keys.list(seeder.tenants[name])
        storage.keys.revoke(key.tenant_id, key.id)


def is_refused(response: httpx.Response) -> bool:
    return response.status_code == 401 and response.json()["error"]["code"] == "invalid_api_key"


def test_the_next_request_is_refused(
    caller: httpx.Client, settings: Settings, seeder: StorageSeeder
) -> None:
    other_tenant = seeder.headers("other_tenant")
    document_id = seeder.add("a.txt").id
    assert caller.get("/documents").status_code == 200
    revoke(settings, seeder)
    assert is_refused(caller.get("/documents"))
    assert is_refused(caller.get(f"/documents/{document_id}"))
    assert is_refused(caller.delete(f"/documents/{document_id}"))
    assert is_refused(caller.post("/documents", files={"file": ("b.txt", b"A text.")}))
    assert is_refused(caller.post(f"/documents/{document_id}/ask", json={"question": "When?"}))
    assert caller.get("/documents", headers=other_tenant).status_code == 200


def test_what_the_key_brought_stays_with_its_tenant(
    caller: httpx.Client, settings: Settings, seeder: StorageSeeder
) -> None:
    document_id = caller.post("/documents", files={"file": ("b.txt", b"A text.")}).json()["id"]
    revoke(settings, seeder)
    key, _ = seeder.storage.keys.create(seeder.tenants["owner"], "next")
    headers = {"authorization": f"Bearer {key}"}
    listed = caller.get("/documents", headers=headers).json()["data"]
    assert [(one["id"], one["status"]) for one in listed] == [(document_id, "queued")]


def test_an_answer_under_way_is_finished(
    caller: httpx.Client, settings: Settings, seeder: StorageSeeder, engine: HeldEngine
) -> None:
    document_id = seeder.add("a.txt").id
    seeder.publish()
    body = {"question": "When does the gate close?", "max_tokens": 8, "stream": True}
    with caller.stream("POST", f"/documents/{document_id}/ask", json=body) as response:
        lines = response.iter_lines()
        assert next(line for line in lines if not line.startswith(":")) == "event: piece"
        revoke(settings, seeder)
        assert is_refused(caller.get("/documents"))
        engine.release.set()
        rest = list(lines)
    assert "event: answer" in rest
    assert "event: error" not in rest
    last = json.loads([line for line in rest if line.startswith("data: ")][-1][len("data: ") :])
    assert last["document_id"] == str(document_id)


def test_events_under_way_go_on_to_their_end(
    caller: httpx.Client, settings: Settings, seeder: StorageSeeder
) -> None:
    path = f"/documents/{seeder.add('a.txt').id}/events"
    with caller.stream("GET", path) as response:
        chunks = response.iter_text()
        first = next(chunks)
        revoke(settings, seeder)
        assert is_refused(caller.get(path))
        seeder.publish()
        received = events(first + "".join(chunks))
    assert [name for name, _ in received] == ["progress"] * len(received)
    assert received[-1][1]["status"] == "ready"
