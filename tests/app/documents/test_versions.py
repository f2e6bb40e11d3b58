"""Over HTTP: new versions, metadata, priority, warnings, and what a name stands for."""

import json
from uuid import UUID

import pytest
from starlette.testclient import TestClient

from app.services.services import Services
from tests.app.conftest import SharedApp
from tests.app.seeding import TEXT, StorageSeeder

NEW = {"file": ("edited.txt", b"The gate closes at 19:10 now.")}


def test_a_new_version_takes_the_name_when_it_is_ready(
    client: TestClient, services: Services, seeder: StorageSeeder
) -> None:
    old = seeder.ready(client)
    new = client.post("/documents", params={"replaces": "a.txt"}, files=NEW).json()
    assert (new["filename"], new["replaces"]) == ("a.txt", old)

    def named() -> list[str]:
        return [
            one["id"] for one in client.get("/documents", params={"name": "a.txt"}).json()["data"]
        ]

    assert named() == [old]
    chat = {"model": "lectern/a.txt", "messages": [{"role": "user", "content": "When?"}]}
    assert client.post("/v1/chat/completions", json=chat).json()["document_id"] == old
    seeder.publish()
    assert named() == [new["id"]]
    assert client.post("/v1/chat/completions", json=chat).json()["document_id"] == new["id"]
    assert services.storage.documents.delete_replaced() == (UUID(old),)
    assert client.get(f"/documents/{old}").status_code == 404
    models = [one["id"] for one in client.get("/v1/models").json()["data"]]
    assert models == ["lectern", "lectern/a.txt"]


@pytest.mark.parametrize("field", ["replaces", "model"])
def test_an_ambiguous_name_is_answered_with_the_candidates(
    client: TestClient, seeder: StorageSeeder, field: str
) -> None:
    ids = [seeder.upload(client, f"{TEXT} {number}") for number in range(2)]
    if field == "replaces":
        refused = client.post("/documents", params={"replaces": "a.txt"}, files=NEW)
    else:
        chat = {"model": "lectern/a.txt", "messages": [{"role": "user", "content": "When?"}]}
        refused = client.post("/v1/chat/completions", json=chat)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["param"]) == (
        400, "ambiguous_document", field
    )  # fmt: skip
    assert all(one in error["message"] for one in ids)


def test_a_name_that_nobody_has(client: TestClient, seeder: StorageSeeder, other_tenant) -> None:
    theirs = client.post("/documents", files={"file": ("b.txt", b"Theirs.")}, headers=other_tenant)
    for name in ("b.txt", "none", theirs.json()["id"]):
        assert client.get("/documents", params={"name": name}).json()["data"] == []
        refused = client.post("/documents", params={"replaces": name}, files=NEW)
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "document_not_found")


def test_metadata_and_priority_are_kept_and_changed(client: TestClient) -> None:
    form = {"metadata": json.dumps({"case": "17"})}
    made = client.post("/documents", params={"priority": 3}, data=form, files=NEW).json()
    assert (made["metadata"], made["priority"]) == ({"case": "17"}, 3)
    path = f"/documents/{made['id']}"
    changed = client.patch(path, json={"metadata": {"case": "18"}, "priority": -2}).json()
    assert (changed["metadata"], changed["priority"]) == ({"case": "18"}, -2)
    assert client.patch(path, json={"filename": "b.txt"}).json()["metadata"] == {"case": "18"}
    assert client.patch(path, json={"metadata": None}).json()["metadata"] == {}


@pytest.mark.parametrize("metadata", ["no JSON", "[]", '{"a": 1}', json.dumps({"k" * 65: ""})])
def test_metadata_has_limits(client: TestClient, metadata: str) -> None:
    refused = client.post("/documents", data={"metadata": metadata}, files=NEW)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "metadata")
    wide = {f"name {number}": "" for number in range(17)}
    made = client.post("/documents", files=NEW).json()
    assert client.patch(f"/documents/{made['id']}", json={"metadata": wide}).status_code == 422


@pytest.mark.parametrize(
    "change",
    [
        {"filename": " "},
        {"filename": "x" * 1001},
        {"priority": 10},
        {"priority": 1.5},
        {"expires_after_s": 59},
        {"expires_after_s": "soon"},
        {"metadata": {"a": "x" * 513}},
        {"pinned": "yes"},
        {"status": "ready"},
    ],
)
def test_a_change_out_of_bounds_is_refused_by_name_and_changes_nothing(
    shared_app: SharedApp, change: dict[str, object]
) -> None:
    client = shared_app.client
    made = client.post("/documents", files=NEW).json()
    refused = client.patch(f"/documents/{made['id']}", json=change)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (422, "invalid_request")
    assert error["param"] in change
    assert client.get(f"/documents/{made['id']}").json() == made


def test_what_reading_could_not_take_is_a_warning(
    client: TestClient, services: Services, seeder: StorageSeeder
) -> None:
    document_id = seeder.ready(client, warnings={"dropped_parts": "The text lacks 2 pictures."})
    (warning,) = client.get(f"/documents/{document_id}").json()["warnings"]
    assert warning == {"code": "dropped_parts", "message": "The text lacks 2 pictures."}
