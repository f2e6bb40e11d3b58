"""Following a document over real sockets, with and without Redis."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import httpx
import pytest
from pydantic import SecretStr

from app.factory import create_app
from app.services.services import Services
from app.services.shares import Shares
from cli.settings import Settings
from common.errors import DatabaseUnavailable
from storage.notify.base import DocumentState
from tests.app.live import send_raw, serving, until
from tests.app.seeding import StorageSeeder
from tests.services import redis_url


@pytest.fixture(params=["poll", "redis"])
def settings(settings: Settings, request: pytest.FixtureRequest) -> Settings:
    """Settings with and without Redis."""
    if request.param == "poll":
        return settings
    return settings.model_copy(update={"redis_url": SecretStr(redis_url())})


@contextmanager
def following(address: str, seeder: StorageSeeder, document_id: object) -> Iterator[Iterator[str]]:
    """The data of the events of a document, as they come."""
    url = f"{address}/documents/{document_id}/events"
    with httpx.stream("GET", url, headers=seeder.headers(), timeout=20) as response:
        assert response.status_code == 200
        lines = response.iter_lines()
        yield (line.removeprefix("data: ") for line in lines if line.startswith("data: "))


def test_every_step_is_told_until_the_document_is_ready(
    address: str, seeder: StorageSeeder, services: Services
) -> None:
    document = seeder.add("a.txt")
    with following(address, seeder, document.id) as events:
        assert json.loads(next(events))["status"] == "queued"

        def report(job: object) -> None:
            services.storage.jobs.progress(job, "prefill", 1, 2)
            services.storage.notifier.notify_watchers(document.id)
            received = [json.loads(next(events)) for _ in range(1)]
            if received[-1]["phase"] is None:  # the claim alone was seen first
                received.append(json.loads(next(events)))
            assert received[-1] == {
                "status": "reading",
                "phase": "prefill",
                "tokens_done": 1,
                "tokens_total": 2,
                "error": None,
            }

        seeder.publish(after=report)
        rest = [json.loads(event) for event in events]
    assert rest[-1]["status"] == "ready"
    assert [event["status"] for event in rest].count("ready") == 1


def test_a_deleted_document_ends_its_events(address: str, seeder: StorageSeeder) -> None:
    document = seeder.add("a.txt")
    with following(address, seeder, document.id) as events:
        next(events)
        seeder.delete(str(document.id))
        assert json.loads(next(events))["error"]["code"] == "document_deleted"
        assert list(events) == []


def test_a_stopping_server_ends_them(
    address: str, seeder: StorageSeeder, services: Services
) -> None:
    document = seeder.add("a.txt")
    with following(address, seeder, document.id) as events:
        next(events)
        services.question_queue.drain()
        assert json.loads(next(events))["error"]["code"] == "shutting_down"
        assert list(events) == []


def test_an_outage_of_the_database_is_sat_out(
    address: str, seeder: StorageSeeder, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.documents.events.RETRY_S", 0.01)
    document = seeder.add("a.txt")
    real, outages = services.storage.notifier.watch, iter(range(3))

    def subscribe(*args: object) -> Iterator[DocumentState]:
        for _ in outages:
            raise DatabaseUnavailable("Away.")
        yield from real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(services.storage.notifier, "watch", subscribe)
    with following(address, seeder, document.id) as events:
        assert json.loads(next(events))["status"] == "queued"
    assert list(outages) == []


@pytest.mark.parametrize(
    ("total", "per_key", "status", "code"),
    [(2, 1, 429, "too_many_requests"), (1, 1, 503, "busy")],
)
def test_the_next_stream_is_refused_until_the_first_leaves(
    services: Services, seeder: StorageSeeder, total: int, per_key: int, status: int, code: str
) -> None:
    shares = Shares("event streams", total=total, per_key=per_key)
    services = replace(services, event_streams=shares)
    document = seeder.add("a.txt")
    path = f"/documents/{document.id}/events"
    key = seeder.headers()["authorization"]
    if status == 503:  # another key holds the only place
        key = f"Bearer {services.storage.keys.create(seeder.tenants['owner'], 'other')[0]}"
    request = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {key}\r\n\r\n"
    with serving(create_app(services)) as address:
        url = f"{address}{path}"

        def open_stream() -> int:
            with httpx.stream("GET", url, headers=seeder.headers(), timeout=5) as response:
                return response.status_code

        with closing(send_raw(address, request.encode())) as first:
            until(lambda: b"queued" in first.recv(10_000))
            refused = httpx.get(url, headers=seeder.headers(), timeout=5)
            assert refused.status_code == status
            assert refused.json()["error"]["code"] == code
            assert int(refused.headers["retry-after"]) > 0
        until(lambda: shares.num_taken() == 0, timeout_s=3)
        assert open_stream() == 200
