"""A tenant's own affairs over HTTP: its keys, its quotas, how long it keeps documents."""

import time
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.http.exchange import format_reset
from app.services.services import Services
from storage.quotas.resources import Resource
from tests.app.live import until
from tests.app.seeding import TEXT, StorageSeeder

QUESTION = {"question": "When does the gate close?", "max_tokens": 4}


@pytest.fixture(autouse=True)
def limits_at_once(services: Services) -> None:
    """Limits that are not remembered for seconds, as other processes see them."""
    services.storage.quotas.limits._max_age_s = 0.0


@pytest.fixture(autouse=True)
def no_minute_ends(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that stands still, so that no test begins in one minute and ends in the next."""
    monkeypatch.setattr(services.storage.quotas.windows, "_clock", lambda: 1_000_000_030.0)


def limit(seeder: StorageSeeder, **amounts: int | None) -> None:
    given = {Resource(name): amount for name, amount in amounts.items()}
    seeder.storage.quotas.limits.set_for_tenant(seeder.tenants["owner"], given)


def refusal(response: Any) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


# -- limits ------------------------------------------------------------------------------------


def test_a_request_tells_how_the_limit_stands_and_one_too_many_when_to_come_again(
    client: TestClient, seeder: StorageSeeder
) -> None:
    assert "x-ratelimit-limit-requests" not in client.get("/documents").headers
    limit(seeder, requests_per_minute=2)
    for left in ("1", "0"):
        headers = client.get("/documents").headers
        assert headers["x-ratelimit-limit-requests"] == "2"
        assert headers["x-ratelimit-remaining-requests"] == left
        assert headers["x-ratelimit-reset-requests"] == "50s"
    response = client.get("/documents")
    assert refusal(response) == (429, "rate_limit_exceeded")
    assert response.headers["retry-after"] == "50"
    assert response.headers["x-ratelimit-remaining-requests"] == "0"
    assert response.json()["error"]["type"] == "rate_limit_error"
    assert client.get("/documents", headers=seeder.headers("other")).status_code == 200
    limit(seeder, requests_per_minute=None)
    assert client.get("/documents").status_code == 200, "without a restart"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.2, "1s"), (59.0, "59s"), (60.0, "1m0s"), (7261.5, "2h1m2s"), (-1.0, "0s")],
)
def test_durations_are_written_as_the_openai_client_reads_them(seconds: float, shown: str) -> None:
    assert format_reset(seconds) == shown


def test_an_upload_over_the_quota_is_refused_before_it_is_read_and_not_tried_again(
    client: TestClient, seeder: StorageSeeder, services: Services
) -> None:
    seeder.upload(client)
    limit(seeder, documents=1)
    response = client.post("/documents", files={"file": ("b.txt", b"Another text.")})
    assert refusal(response) == (429, "quota_exceeded")
    assert response.headers["x-should-retry"] == "false"
    assert "retry-after" not in response.headers
    assert not list((services.data_dir / "incoming").glob("*"))
    limit(seeder, documents=None, bytes=10)
    assert refusal(client.post("/documents", files={"file": ("b", b"x")}))[0] == 429
    limit(seeder, bytes=None, queued_jobs=1)
    response = client.post("/documents", files={"file": ("b.txt", b"Another text.")})
    assert int(response.headers["retry-after"]) > 1, "a job may end"


def test_a_document_that_is_read_again_counts_among_those_that_wait(
    client: TestClient, seeder: StorageSeeder
) -> None:
    def upload(text: bytes) -> Any:
        return client.post("/documents", files={"file": ("a.txt", text)})

    failed = upload(b"The gate is green.").json()["id"]
    assert client.post(f"/documents/{failed}/cancel").json()["status"] == "failed"
    assert upload(b"The gate is blue.").status_code == 202
    limit(seeder, queued_jobs=1)
    for refused in (client.post(f"/documents/{failed}/retry"), upload(b"The gate is green.")):
        assert refusal(refused) == (429, "quota_exceeded")
        assert refused.headers["retry-after"] == "30"
    assert client.get(f"/documents/{failed}").json()["status"] == "failed"
    limit(seeder, queued_jobs=2)
    assert client.post(f"/documents/{failed}/retry").json()["status"] == "queued"
    assert client.post(f"/documents/{failed}/retry").status_code == 202, "it waits already"


def test_tokens_are_told_settled_and_refused(client: TestClient, seeder: StorageSeeder) -> None:
    document_id = seeder.ready(client)
    limit(seeder, tokens_per_day=200)
    response = client.post(f"/documents/{document_id}/ask", json=QUESTION)
    assert response.status_code == 200
    tokens = response.json()["usage"]
    spent = tokens["question_tokens"] + tokens["completion_tokens"]
    assert response.headers["x-ratelimit-limit-tokens"] == "200"
    assert int(response.headers["x-ratelimit-remaining-tokens"]) < 200
    assert response.headers["x-ratelimit-reset-tokens"].endswith("s")

    def used() -> int:
        resources = client.get("/usage").json()["resources"]
        return int(resources["tokens_per_day"]["used"])

    until(lambda: used() == spent)
    limit(seeder, tokens_per_day=spent + 3)
    response = client.post(f"/documents/{document_id}/ask", json=QUESTION)
    assert refusal(response) == (429, "rate_limit_exceeded")
    assert used() == spent, "what is refused costs nothing"


def test_a_question_gives_its_place_back(client: TestClient, seeder: StorageSeeder) -> None:
    document_id = seeder.ready(client)
    limit(seeder, questions_at_once=1)
    places = seeder.storage.quotas.places
    for body in (QUESTION, QUESTION | {"stream": True}, QUESTION | {"budget": "exact"}):
        assert client.post(f"/documents/{document_id}/ask", json=body).status_code == 200
        until(lambda: places.count(seeder.tenants["owner"]) == 0)
    limit(seeder, questions_at_once=0)
    response = client.post(f"/documents/{document_id}/ask", json=QUESTION)
    assert refusal(response) == (429, "rate_limit_exceeded")


def test_usage_shows_limits_and_what_was_used(client: TestClient, seeder: StorageSeeder) -> None:
    seeder.ready(client)
    limit(seeder, documents=5, requests_per_minute=100)
    body = client.get("/usage").json()
    assert body["tenant"] == "owner"
    resources = body["resources"]
    assert set(resources) == set(Resource)
    assert resources["documents"] == {
        "limit": 5,
        "used": 1,
        "key_limit": None,
        "key_used": 1,
        "resets_in_s": None,
    }
    assert resources["requests_per_minute"]["used"] == 1
    assert resources["bytes"]["used"] > len(TEXT), "caches are counted, too"
    assert resources["queued_jobs"]["used"] == 0


# -- keys --------------------------------------------------------------------------------------


def make(client: TestClient, **fields: Any) -> dict[str, Any]:
    response = client.post("/keys", json={"name": "night shift"} | fields)
    assert response.status_code == 201, response.text
    made: dict[str, Any] = response.json()
    return made


def test_a_key_is_made_shown_once_listed_and_revoked(client: TestClient) -> None:
    made = make(client, scopes=["read"], expires_in_days=3, limits={"requests_per_minute": 9})
    headers = {"authorization": f"Bearer {made['key']}"}
    response = client.get("/documents", headers=headers)
    assert response.headers["x-ratelimit-limit-requests"] == "9"
    listed = client.get("/keys").json()["data"]
    assert [key["scopes"] for key in listed][1] == ["read"]
    assert made["key"] not in client.get("/keys").text
    assert listed[1]["expires_at"] == pytest.approx(time.time() + 3 * 86_400, abs=60)
    assert client.delete(f"/keys/{made['id']}").status_code == 204
    assert client.get("/documents", headers=headers).status_code == 401
    assert client.get("/keys").json()["data"][1]["revoked_at"] is not None


def test_a_key_passes_on_no_more_than_it_has(client: TestClient) -> None:
    admin = make(client, scopes=["admin"], expires_in_days=1)
    headers = {"authorization": f"Bearer {admin['key']}"}
    response = client.post("/keys", json={"name": "x", "scopes": ["read"]}, headers=headers)
    assert refusal(response) == (403, "insufficient_scope")
    response = client.post(
        "/keys", json={"name": "x", "scopes": ["admin"], "expires_in_days": 9}, headers=headers
    )
    assert response.json()["expires_at"] == admin["expires_at"]


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"scopes": []},
        {"scopes": ["all"]},
        {"expires_in_days": 0},
        {"limits": {"wishes": 3}},
        {"limits": {"documents": -1}},
    ],
)
def test_a_key_that_cannot_be_made_is_refused(client: TestClient, fields: dict[str, Any]) -> None:
    assert client.post("/keys", json={"name": "x"} | fields).status_code in (400, 422)
    assert len(client.get("/keys").json()["data"]) == 1


# -- documents with an end ---------------------------------------------------------------------


def test_a_document_is_kept_as_long_as_its_upload_its_change_or_its_tenant_says(
    client: TestClient,
) -> None:
    def upload(text: str, query: str = "") -> dict[str, Any]:
        response = client.post(f"/documents{query}", files={"file": ("a.txt", text.encode())})
        assert response.status_code == 202
        body: dict[str, Any] = response.json()
        return body

    assert upload("For ever.")["expires_at"] is None
    body = upload("An hour.", "?expires_after_s=3600")
    assert body["expires_at"] - body["created_at"] == 3600
    assert client.patch("/tenant", json={"document_ttl_s": 7200}).json()["document_ttl_s"] == 7200
    two = upload("Two hours.")
    assert two["expires_at"] - two["created_at"] == 7200
    path = f"/documents/{two['id']}"
    assert client.patch(path, json={}).json()["expires_at"] == two["expires_at"]
    assert client.patch(path, json={"expires_after_s": None}).json()["expires_at"] is None
    assert client.patch(path, json={"expires_after_s": 5}).status_code == 422
    assert client.post("/documents?expires_after_s=5").status_code == 422


def test_a_document_that_another_process_deleted_leaves_memory(
    client: TestClient, seeder: StorageSeeder, services: Services
) -> None:
    document_id = seeder.ready(client)
    kept = seeder.ready(client, TEXT[::-1])
    for one in (document_id, kept):
        assert client.post(f"/documents/{one}/ask", json=QUESTION).status_code == 200
    assert services.deleted_documents.forget() == 0
    seeder.delete(document_id)
    assert services.deleted_documents.forget() == 1
    assert len(services.resident_documents.tiers()) == 1
