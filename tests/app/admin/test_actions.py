"""What an operator does to documents, keys and tenants, by the forms of the dashboard."""

import re
from collections.abc import Iterator
from uuid import UUID

import pytest
from starlette.testclient import TestClient

from app.admin.actions import DOCUMENT_ACTIONS
from app.factory import create_app
from app.services.services import Services
from tests.app.live import until
from tests.app.seeding import StorageSeeder

ORIGIN = {"origin": "http://testserver"}


@pytest.fixture
def operator(services: Services, password: str) -> Iterator[TestClient]:
    """A browser that has logged in."""
    with TestClient(create_app(services), follow_redirects=False) as browser:
        browser.post("/admin/login", data={"password": password}, headers=ORIGIN)
        yield browser


def csrf(operator: TestClient) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', operator.get("/admin").text)
    assert found
    return found[1]


@pytest.fixture
def submit(operator: TestClient):
    """Send a form of the dashboard, and return the page that follows."""

    def submit(path: str, **form: object):
        data = {"csrf": csrf(operator), **form}
        response = operator.post(f"/admin{path}", data=data, headers=ORIGIN)
        if response.status_code == 303:
            return operator.get(response.headers["location"])
        return response

    return submit


def add(operator: TestClient, seeder: StorageSeeder) -> UUID:
    file = {"file": ("a.txt", b"The gate closes at 18:40.")}
    response = operator.post("/documents", files=file, headers=seeder.headers())
    return UUID(response.json()["id"])


def test_every_action_says_what_it_will_do_and_needs_the_pages_token(
    operator: TestClient, seeder: StorageSeeder
) -> None:
    document_id = add(operator, seeder)
    for name, action in DOCUMENT_ACTIONS.items():
        assert action.effect.endswith(".")
        for data, headers in (
            ({}, ORIGIN),
            ({"csrf": "x"}, ORIGIN),
            ({"csrf": csrf(operator)}, {}),
        ):
            path = f"/admin/documents/{document_id}/{name}"
            assert operator.post(path, data=data, headers=headers).status_code == 403
    page = operator.get(f"/admin/documents/{document_id}").text
    assert DOCUMENT_ACTIONS["cancel"].effect in page
    assert DOCUMENT_ACTIONS["pin"].effect not in page  # there is nothing to pin yet


def test_a_document_is_cancelled_retried_put_first_and_deleted(
    operator: TestClient, submit, seeder: StorageSeeder, services: Services
) -> None:
    document_id, jobs = add(operator, seeder), services.storage.jobs
    assert "is being stopped" in submit(f"/documents/{document_id}/cancel").text
    assert "cancelled" in operator.get("/admin").text
    submit(f"/documents/{document_id}/retry", back="overview")
    submit(f"/documents/{document_id}/first")
    job = jobs.latest(document_id)
    assert (job.status, job.priority > 0) == ("queued", True)
    assert "is deleted" in submit(f"/documents/{document_id}/delete", back="document").text
    gone = submit(f"/documents/{document_id}/pin")
    assert (gone.status_code, "document_not_found" in gone.text) == (404, True)


def test_a_ready_document_is_pinned_evicted_and_read_again(
    operator: TestClient, submit, seeder: StorageSeeder, services: Services
) -> None:
    document_id, residents = add(operator, seeder), services.resident_documents
    seeder.publish()
    page = submit(f"/documents/{document_id}/pin", back="document").text
    assert "The document is pinned." in page
    until(lambda: residents.look_at(document_id) is not None)
    page = operator.get(f"/admin/documents/{document_id}").text
    assert "Fine clusters of all layers" in page
    assert "data-curve" in page
    submit(f"/documents/{document_id}/unpin")
    submit(f"/documents/{document_id}/evict")
    assert residents.placements() == {}
    submit(f"/documents/{document_id}/rebuild")
    assert services.storage.jobs.latest(document_id).status == "queued"


def test_keys_are_made_shown_once_and_revoked(
    operator: TestClient, submit, seeder: StorageSeeder, services: Services
) -> None:
    seeder.headers()
    tenant_id = seeder.tenants["owner"]
    page = submit(f"/tenants/{tenant_id}/keys", name="for Ada", scopes=["read"], days=3).text
    key = re.search(r"lk_\w{12}_\w+", page)[0]
    assert key not in operator.get(f"/admin/tenants/{tenant_id}").text
    caller = services.storage.keys.verify(key)
    assert (caller.scopes, caller.tenant_id) == (("read",), tenant_id)
    refused = submit(f"/tenants/{tenant_id}/keys", name="none")
    assert refused.status_code == 400
    submit(f"/tenants/{tenant_id}/keys/{caller.id}/revoke")
    assert operator.get("/documents", headers={"authorization": f"Bearer {key}"}).is_error


def test_a_tenant_is_suspended_and_goes_on(
    operator: TestClient, submit, seeder: StorageSeeder
) -> None:
    headers = seeder.headers()
    address = f"/tenants/{seeder.tenants['owner']}"
    assert "suspended" in submit(f"{address}/suspend").text
    assert operator.get("/documents", headers=headers).status_code == 403
    submit(f"{address}/resume")
    assert operator.get("/documents", headers=headers).status_code == 200
    for path in ("/admin/tenants/x", "/admin/documents/x"):
        assert operator.get(path).status_code == 404
