"""Every route x scope x whose document; and the operator's password, which is no key."""

from collections.abc import Mapping
from itertools import count
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.http.auth import ScopedRoute
from app.services.services import Services
from bench.faults.matrix import CALLS, NAMING, OPERATORS, RELATIONS, Answered, Matrix, scopes_of
from cli.settings import Settings
from common.scopes import ALL_SCOPES
from tests.app.seeding import StorageSeeder

BY_CHANCE = ("x-request-id", "date")
OPEN = {("get", "/healthz"), ("get", "/readyz")}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Answers are stored, as they usually are."""
    return settings.model_copy(update={"stored_answer_hours": 1.0})


@pytest.fixture
def openapi(client: TestClient) -> Mapping[str, Any]:
    """What the server says about itself."""
    described: dict[str, Any] = client.get("/openapi.json").json()
    return described


def test_every_route_names_a_scope_and_is_in_the_matrix(openapi: Mapping[str, Any]) -> None:
    operations = {(method, path) for path in openapi["paths"] for method in openapi["paths"][path]}
    assert operations - OPEN - set(OPERATORS) == set(scopes_of(openapi)) == set(CALLS)
    assert operations > set(OPERATORS)


def test_no_cell_of_the_matrix_is_wrong(
    client: TestClient, services: Services, seeder: StorageSeeder, openapi: Mapping[str, Any]
) -> None:
    del client.headers["authorization"]
    owner, numbers = seeder.headers(), count()

    def send(method: str, path: str, key: str, **request: Any) -> Answered:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        response = client.request(method, path, headers=headers, **request)
        body = response.json() if response.is_error else {}
        code = body["error"]["code"] if body else ""
        kept = {name: value for name, value in response.headers.items() if name not in BY_CHANCE}
        return Answered(response.status_code, code, response.text, kept)

    def upload(text: str) -> str:
        files = {"file": ("a.txt", text.encode())}
        return str(client.post("/documents", files=files, headers=owner).json()["id"])

    document_id = upload("A text that two tenants have.")
    seeder.publish()
    matrix = Matrix(
        services.storage,
        send,
        owner=seeder.tenants["owner"],
        document_id=document_id,
        add_document=lambda: upload(f"text {next(numbers)}"),
    )
    assert list(matrix.wrong_cells(openapi)) == []
    num_routes = len(CALLS) + len(NAMING) + len(OPERATORS)
    assert matrix.num_cells == num_routes * len(ALL_SCOPES) * len(RELATIONS)


def test_a_route_without_a_scope_cannot_be_made() -> None:
    async def open_to_all() -> None: ...

    with pytest.raises(TypeError, match="names no scope"):
        ScopedRoute("/documents/all", open_to_all)


def test_scopes_are_asked_before_the_body_is_read(
    client: TestClient, seeder: StorageSeeder
) -> None:
    key, _ = seeder.storage.keys.create(seeder.tenants["owner"], "r", scopes=ALL_SCOPES[:1])
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    path = f"/documents/{seeder.upload(client)}/ask"
    response = client.post(path, content=b"{", headers=headers)
    assert (response.status_code, response.json()["error"]["code"]) == (403, "insufficient_scope")


def test_the_operators_password_is_no_key_and_no_key_opens_the_dashboard(
    client: TestClient, password: str
) -> None:
    assert client.get("/admin", follow_redirects=False).headers["location"] == "/admin/login"
    headers = {"authorization": f"Bearer {password}"}
    assert client.get("/documents", headers=headers).status_code == 401
    origin = {"origin": "http://testserver"}
    client.post("/admin/login", data={"password": password}, headers=origin)
    del client.headers["authorization"]
    assert client.get("/admin").status_code == 200
    assert client.get("/documents").status_code == 401
