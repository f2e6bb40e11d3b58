"""The OpenAPI schema is valid, names bodies by models, and is shown on `/docs`, behind a key."""

import pytest
from openapi_spec_validator import validate
from starlette.testclient import TestClient

from tests.app.seeding import StorageSeeder

STREAMS_AND_FILES = ("/events", "/content", "/metrics", "/image")


def test_the_schema_is_valid(client: TestClient) -> None:
    validate(client.get("/openapi.json").json())


def test_every_json_answer_has_a_model(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()
    without = [
        f"{method} {path}"
        for path, methods in schema["paths"].items()
        for method, described in methods.items()
        for status, response in described["responses"].items()
        if status.startswith("2")
        and "$ref" not in response.get("content", {}).get("application/json", {}).get("schema", {})
        and status != "204"
        and not path.endswith(STREAMS_AND_FILES)
    ]
    assert without == []


def test_docs_are_shown_to_who_has_a_key(client: TestClient, seeder: StorageSeeder) -> None:
    key = seeder.headers()["authorization"].removeprefix("Bearer ")
    del client.headers["authorization"]
    refused = client.get("/docs", follow_redirects=False)
    assert (refused.status_code, refused.headers["location"]) == (303, "/login?next=/docs")
    login = {"key": key, "next": "/docs"}
    origin = {"origin": "http://testserver"}
    page = client.post("/login", data=login, headers=origin, follow_redirects=True)
    assert page.status_code == 200
    assert page.url.path == "/docs"
    for shown in ("/documents/{document_id}/ask", "ChatCompletion", "reuse_answer"):
        assert shown in page.text
    assert "http://" not in page.text
    assert "https://" not in page.text


@pytest.mark.parametrize("path", ["/docs", "/openapi.json"])
def test_neither_is_shown_without_a_key(client: TestClient, path: str) -> None:
    del client.headers["authorization"]
    assert client.get(path, follow_redirects=False).status_code in (303, 401)
