"""Every route asks who is there, except the few that are named here."""

import re

import pytest
from fastapi.routing import iter_route_contexts
from starlette.testclient import TestClient

from common.scopes import Scope
from tests.app.seeding import StorageSeeder

PROBES = {("GET", "/healthz"), ("GET", "/readyz")}
LOGIN = {
    ("GET", "/admin/login"),
    ("POST", "/admin/login"),
    ("GET", "/login"),
    ("POST", "/login"),
    ("POST", "/logout"),
    ("GET", "/static/{name}"),
}
ROOM = ("/room/", "/admin", "/docs")
OPERATORS = {("GET", "/metrics")}  # the operator's token alone opens it


def walk(client: TestClient) -> list[tuple[str, str]]:
    """Every method and path of the app."""
    routes = iter_route_contexts(client.app.routes)  # type: ignore[attr-defined]
    found = sorted((method, route.path) for route in routes for method in route.methods)
    assert len(found) > 10
    return found


def test_every_route_wants_a_key_or_a_login(client: TestClient) -> None:
    del client.headers["authorization"]
    walked = walk(client)
    assert set(walked) >= PROBES | LOGIN
    for method, path in walked:
        if (method, path) in PROBES | LOGIN | OPERATORS:
            continue
        address = re.sub(r"\{\w+\}", "6f0c3c1e-0000-4000-8000-000000000000", path)
        response = client.request(method, address, follow_redirects=False)
        if path == "/" or path.startswith(ROOM):
            assert response.status_code == 303, (method, path)
            login = "/admin/login" if path.startswith("/admin") else "/login"
            assert response.headers["location"].startswith(login)
        else:
            assert response.status_code == 401, (method, path)
            assert response.json()["error"]["code"] == "invalid_api_key"
            assert response.headers["www-authenticate"] == "Bearer"


def test_probes_need_no_key(client: TestClient) -> None:
    del client.headers["authorization"]
    for _, path in PROBES:
        assert client.get(path).status_code in (200, 503)  # no worker runs here


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic dXNlcjpwYXNz",
        "Bearer lk_",
        "Bearer lk_00000000_0000000000000000000000000000000000000000000",
        "Bearer " + "x" * 5000,
        "Bearer \xff\xfe",
        "lk_abc",
    ],
)
def test_a_wrong_key_is_refused(client: TestClient, value: str) -> None:
    response = client.get("/documents", headers={"authorization": value.encode("latin-1")})
    assert response.status_code == 401
    assert value.strip() == "" or value not in response.text or value in ("Bearer", "Bearer ")


def test_half_a_key_is_no_key(client: TestClient, seeder: StorageSeeder) -> None:
    key = seeder.keys["owner"]
    assert client.get("/documents").status_code == 200
    for wrong in (key[:-1], key + "x", key.upper(), key[:-1] + ("a" if key[-1] != "a" else "b")):
        headers = {"authorization": f"Bearer {wrong}"}
        assert client.get("/documents", headers=headers).status_code == 401


def test_a_key_does_only_what_its_scopes_say(client: TestClient, seeder: StorageSeeder) -> None:
    key, _ = seeder.storage.keys.create(seeder.tenants["owner"], "reader", scopes=[Scope.READ])
    client.headers["authorization"] = f"Bearer {key}"
    assert client.get("/documents").status_code == 200
    response = client.post("/documents", files={"file": ("a.txt", b"A text.")})
    assert (response.status_code, response.json()["error"]["code"]) == (403, "insufficient_scope")


def test_the_schema_is_for_key_holders(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()
    ask = schema["paths"]["/documents/{document_id}/ask"]["post"]
    assert ask["security"] == [{"ApiKey": ["ask"]}]
    assert set(ask["responses"]) == {"200", "4XX", "5XX"}
    assert set(ask["responses"]["200"]["content"]) == {"application/json", "text/event-stream"}
