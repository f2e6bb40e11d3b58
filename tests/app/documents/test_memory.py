"""What callers see of memory: tiers, prefetching, pins, and warnings before anything goes wrong."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.factory import create_app
from app.services.services import Services, make_services
from engine.document.cache import DocumentCache
from engine.document.cache_bytes import CacheBytes
from tests.app.live import until
from tests.app.seeding import TEXT, StorageSeeder

QUESTION = {"question": "When does the gate close?", "max_tokens": 4}


@contextmanager
def client_with(
    services: Services, seeder: StorageSeeder, cache: DocumentCache, fitting: float, host: int = 0
) -> Iterator[TestClient]:
    """A client of a server in whose memory so many documents fit."""
    config = replace(
        services.config,
        device_cache_bytes=int(fitting * cache.num_bytes),
        host_cache_bytes=host * cache.num_bytes,
    )
    sizes = CacheBytes(cache.num_bytes / cache.num_tokens, 0.0)
    remade = make_services(
        config, services.data_dir, services.storage, services.engine, sizes=sizes
    )
    with TestClient(create_app(remade), headers=seeder.headers()) as client:
        yield client


def shown(client: TestClient, document_id: str) -> dict[str, Any]:
    body: dict[str, Any] = client.get(f"/documents/{document_id}").json()
    return body


def three(client: TestClient, seeder: StorageSeeder) -> list[str]:
    return [seeder.ready(client, text=f"{TEXT} Number {number}.") for number in range(3)]


def test_a_document_goes_down_the_tiers_and_comes_back(
    services: Services, seeder: StorageSeeder, cache: DocumentCache
) -> None:
    with client_with(services, seeder, cache, fitting=1.5, host=1) as client:
        ids = three(client, seeder)
        assert {shown(client, one)["tier"] for one in ids} == {"disk"}
        for one in ids:
            assert client.post(f"/documents/{one}/ask", json=QUESTION).status_code == 200
        assert [shown(client, one)["tier"] for one in ids] == ["disk", "host", "device"]
        again = client.post(f"/documents/{ids[2]}/ask", json=QUESTION).json()
        assert (again["cache_hit"], again["timings_ms"]["load"]) == (True, 0)


def test_a_prefetched_document_is_resident_for_its_first_question(
    services: Services, seeder: StorageSeeder, cache: DocumentCache
) -> None:
    with client_with(services, seeder, cache, fitting=2) as client:
        document_id = seeder.ready(client)
        response = client.post(f"/documents/{document_id}/prefetch")
        assert (response.status_code, response.json()["id"]) == (202, document_id)
        until(lambda: shown(client, document_id)["tier"] == "device")
        assert client.post(f"/documents/{document_id}/ask", json=QUESTION).json()["cache_hit"]


def test_a_document_leaves_memory_when_somebody_asks_and_a_pinned_one_does_not(
    services: Services, seeder: StorageSeeder, cache: DocumentCache
) -> None:
    with client_with(services, seeder, cache, fitting=2, host=1) as client:
        document_id = seeder.ready(client)
        path = f"/documents/{document_id}"
        assert client.post(f"{path}/evict").json()["tier"] == "disk", "it was not there anyway"
        assert client.post(f"{path}/ask", json=QUESTION).status_code == 200
        response = client.post(f"{path}/evict")
        assert (response.status_code, response.json()["tier"]) == (202, "disk")
        loaded = client.app.state.services.resident_documents  # type: ignore[attr-defined]
        assert loaded.occupancy().device.evictions == {"asked": 1}
        assert loaded.occupancy().device.num_bytes == 0
        assert client.post(f"{path}/ask", json=QUESTION).status_code == 200, "it is loaded again"
        client.patch(path, json={"pinned": True})
        response = client.post(f"{path}/evict")
        assert (response.status_code, response.json()["error"]["code"]) == (409, "document_pinned")
        assert shown(client, document_id)["tier"] == "device"


def test_a_document_that_is_not_ready_or_not_ones_own_is_not_prefetched(
    client: TestClient, seeder: StorageSeeder, other_tenant: dict[str, str]
) -> None:
    document_id = seeder.upload(client)
    path = f"/documents/{document_id}/prefetch"
    assert client.post(path).json()["error"]["code"] == "document_not_ready"
    assert client.post(path, headers=other_tenant).json()["error"]["code"] == "document_not_found"


def test_a_pinned_document_stays_and_says_what_fills_the_memory(
    services: Services, seeder: StorageSeeder, cache: DocumentCache
) -> None:
    with client_with(services, seeder, cache, fitting=1.5) as client:
        first, second, third = three(client, seeder)
        assert client.patch(f"/documents/{first}", json={"pinned": True}).json()["pinned"]
        until(lambda: shown(client, first)["tier"] == "device")
        refused = client.post(f"/documents/{second}/ask", json=QUESTION)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "memory_full")
        assert "pinned" in refused.json()["error"]["message"]
        [warning] = shown(client, second)["warnings"]
        assert warning["code"] == "will_not_stay_resident"
        assert shown(client, first)["warnings"] == []
        pin = client.patch(f"/documents/{third}", json={"pinned": True})
        assert (pin.status_code, pin.json()["error"]["code"]) == (409, "pins_exceed_memory")
    with client_with(services, seeder, cache, fitting=1.5) as client:  # after a restart
        until(lambda: shown(client, first)["tier"] == "device")
        assert not client.patch(f"/documents/{first}", json={"pinned": False}).json()["pinned"]
        assert client.post(f"/documents/{second}/ask", json=QUESTION).status_code == 200


@pytest.mark.parametrize("body", [{"pinned": "yes"}, {"pinned": 1}, {"tier": "device"}])
def test_other_changes_are_refused(client: TestClient, seeder: StorageSeeder, body: Any) -> None:
    response = client.patch(f"/documents/{seeder.upload(client)}", json=body)
    assert response.status_code == 422


def test_another_tenants_document_cannot_be_pinned(
    client: TestClient, seeder: StorageSeeder, other_tenant: dict[str, str]
) -> None:
    document_id = seeder.ready(client)
    response = client.patch(
        f"/documents/{document_id}", json={"pinned": True}, headers=other_tenant
    )
    assert response.status_code == 404
    assert not shown(client, document_id)["pinned"]


def test_an_upload_that_will_not_fit_says_so(
    services: Services, seeder: StorageSeeder, cache: DocumentCache
) -> None:
    with client_with(services, seeder, cache, fitting=0.1) as client:
        document = shown(client, seeder.upload(client, text=TEXT))
        assert [warning["code"] for warning in document["warnings"]] == ["too_large_for_memory"]
        seeder.publish()
        response = client.post(f"/documents/{document['id']}/ask", json=QUESTION)
        assert response.json()["error"]["code"] == "document_too_large_for_memory"
