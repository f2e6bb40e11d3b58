"""A session of the reading room is its key's: what it may do, and when it ends."""

from datetime import timedelta

import pytest
from sqlalchemy import update
from starlette.testclient import TestClient

from app.factory import create_app
from app.services.services import Services
from common.scopes import Scope
from storage.db.tables import BrowserSession
from tests.app.room.conftest import ORIGIN, csrf_of, log_in
from tests.app.seeding import StorageSeeder

FILE = {"file": ("a.txt", b"The gate closes at 18:40.")}


def test_without_a_session_every_page_leads_to_the_login(browser: TestClient) -> None:
    assert browser.get("/").headers["location"] == "/login"
    assert browser.get("/room/x").headers["location"] == "/login?next=/room/x"
    polling = browser.get("/", headers={"hx-request": "true"})
    assert (polling.status_code, polling.headers["hx-redirect"]) == (401, "/login")


def test_a_wrong_key_opens_nothing_and_is_told_why(browser: TestClient, key: str) -> None:
    response = log_in(browser, key[:-1])
    assert response.status_code == 401
    assert "unknown, expired or revoked" in response.text
    assert "set-cookie" not in response.headers


@pytest.mark.parametrize(
    ("wanted", "address"),
    [("/room/6f0c", "/room/6f0c"), ("//evil.example", "/"), ("/room/\\evil", "/"), ("x", "/")],
)
def test_a_login_leads_on_to_the_rooms_own_pages_alone(
    browser: TestClient, key: str, wanted: str, address: str
) -> None:
    assert log_in(browser, key, next=wanted).headers["location"] == address


def test_the_cookie_is_out_of_reach_and_does_not_hold_the_key(
    browser: TestClient, key: str
) -> None:
    cookie = log_in(browser, key).headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert key not in cookie


def test_the_session_calls_the_api_as_its_key(reader: TestClient) -> None:
    headers = ORIGIN | {"x-csrf-token": csrf_of(reader.get("/").text)}
    uploaded = reader.post("/documents", files=FILE, headers=headers)
    assert uploaded.status_code == 202
    assert reader.get("/documents").json()["data"][0]["id"] == uploaded.json()["id"]
    assert "a.txt" in reader.get("/").text


def test_another_site_cannot_use_the_session(reader: TestClient) -> None:
    token = csrf_of(reader.get("/").text)
    for headers in (
        ORIGIN,
        {"x-csrf-token": token},
        {"x-csrf-token": token, "origin": "http://evil.example"},
        ORIGIN | {"x-csrf-token": "guess"},
    ):
        assert reader.post("/documents", files=FILE, headers=headers).status_code == 403
    assert reader.get("/documents", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert reader.get("/documents").json()["data"] == []


def test_a_session_survives_a_restart_and_ends_with_its_key(
    reader: TestClient, services: Services, seeder: StorageSeeder
) -> None:
    again = TestClient(create_app(services), follow_redirects=False)
    again.cookies.update(dict(reader.cookies))
    assert again.get("/").status_code == 200
    tenant_id = seeder.tenants["owner"]
    (key,) = services.storage.keys.list(tenant_id)
    services.storage.keys.revoke(tenant_id, key.id)
    assert reader.get("/").headers["location"] == "/login"
    assert reader.get("/documents").status_code == 401


def test_a_session_ends_when_its_time_is_over(reader: TestClient, services: Services) -> None:
    with services.storage.db.session() as session:
        past = services.storage.db.now(session) - timedelta(seconds=1)
        session.execute(update(BrowserSession).values(expires_at=past))
    assert reader.get("/").headers["location"] == "/login"
    assert services.storage.browser_sessions.delete_expired() == 1


def test_logging_out_ends_the_session_for_copies_of_its_cookie_too(reader: TestClient) -> None:
    cookies, token = dict(reader.cookies), csrf_of(reader.get("/").text)
    assert reader.post("/logout", data={"csrf": "x"}, headers=ORIGIN).status_code == 403
    reader.post("/logout", data={"csrf": token}, headers=ORIGIN)
    reader.cookies.update(cookies)
    assert reader.get("/").headers["location"] == "/login"


def test_a_key_that_may_not_read_gets_a_page_that_says_so(
    browser: TestClient, services: Services, seeder: StorageSeeder
) -> None:
    seeder.headers()
    key, _ = services.storage.keys.create(seeder.tenants["owner"], "w", scopes=[Scope.WRITE])
    assert log_in(browser, key).status_code == 303
    page = browser.get("/")
    assert page.status_code == 403
    assert "lacks the scope `read`" in page.text.replace("&#39;", "'")
    assert "Log in with another key" in page.text
