"""Access to the dashboard: login, forms, headers."""

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import httpx
import pytest
from starlette.testclient import TestClient

from app.factory import create_app
from app.http import sessions
from app.http.server import make_server
from app.services.services import Services
from tests.app.live import listening, until
from tests.app.seeding import StorageSeeder

ORIGIN = {"origin": "http://testserver"}
HX = {"hx-request": "true"}


@pytest.fixture
def browser(services: Services, password: str) -> Iterator[TestClient]:
    """A browser that has not logged in and does not follow redirects."""
    with TestClient(create_app(services), follow_redirects=False) as browser:
        yield browser


@pytest.fixture
def operator(browser: TestClient, password: str) -> TestClient:
    """A browser that has logged in."""
    assert log_in(browser, password).status_code == 303
    return browser


def log_in(browser: TestClient, password: str, **headers: str):
    form = {"password": password}
    return browser.post("/admin/login", data=form, headers={**ORIGIN, **headers})


def csrf(page: str) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', page)
    assert found
    return found[1]


def test_requests_without_a_session_are_sent_to_the_login(browser: TestClient) -> None:
    assert browser.get("/admin").headers["location"] == "/admin/login"
    polling = browser.get("/admin/live", headers=HX)
    assert polling.status_code == 401
    assert polling.headers["hx-redirect"] == "/admin/login"
    assert 'type="password"' in browser.get("/admin/login").text


def test_an_api_key_opens_no_dashboard(browser: TestClient, seeder: StorageSeeder) -> None:
    assert browser.get("/admin", headers=seeder.headers()).status_code == 303


def test_the_password_opens_it(operator: TestClient) -> None:
    page = operator.get("/admin")
    assert page.status_code == 200
    assert "Queue" in page.text
    assert operator.get("/admin/live", headers=HX).status_code == 200


def test_the_cookie_is_out_of_reach(browser: TestClient, password: str) -> None:
    cookie = log_in(browser, password).headers["set-cookie"]
    assert cookie.startswith("lectern=")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert "Domain" not in cookie
    assert password not in cookie


def test_over_tls_the_cookie_is_bound_to_the_host(services: Services, password: str) -> None:
    with TestClient(
        create_app(services), base_url="https://lectern.example", follow_redirects=False
    ) as browser:
        response = log_in(browser, password, origin="https://lectern.example")
        cookie = response.headers["set-cookie"]
        assert cookie.startswith("__Host-lectern=")
        assert "Secure" in cookie.split("; ")
        assert browser.get("/admin").status_code == 200


def test_every_login_gets_a_new_cookie(browser: TestClient, password: str) -> None:
    cookies = {log_in(browser, password).headers["set-cookie"] for _ in range(3)}
    assert len(cookies) == 3


def test_a_wrong_password_opens_nothing(browser: TestClient, password: str) -> None:
    response = log_in(browser, password[:-1])
    assert response.status_code == 401
    assert "set-cookie" not in response.headers
    assert "not the password" in response.text
    assert browser.get("/admin").status_code == 303
    assert log_in(browser, "x" * 1000).status_code == 422


def test_guessing_is_slowed_down_but_locks_nobody_out(
    browser: TestClient, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.admin.logins.SLOW_S", 0.02)
    statuses = [log_in(browser, f"guess {number}").status_code for number in range(30)]
    assert set(statuses) == {401}
    assert log_in(browser, password).status_code == 303


def test_an_address_cannot_have_two_slowed_attempts_checked_at_once(
    services: Services, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.admin.logins.SLOW_S", 0.5)
    with TestClient(create_app(services), follow_redirects=False) as browser:
        for number in range(5):
            assert log_in(browser, f"guess {number}").status_code == 401
        with ThreadPoolExecutor(3) as pool:
            answers = list(pool.map(lambda guess: log_in(browser, guess), ("a", "b", "c")))
        assert sorted(answer.status_code for answer in answers) == [401, 429, 429]
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert int(refused.headers["retry-after"]) > 0
        assert "Too many attempts" in refused.text


@pytest.mark.parametrize(
    ("trusted", "counted"),
    [
        ("", {"127.0.0.1"}),
        ("10.0.0.0/8", {"127.0.0.1"}),
        ("127.0.0.1", {"10.0.0.1", "203.0.113.9"}),
        ("127.0.0.0/8, 203.0.113.0/24", {"10.0.0.1", "10.0.0.2"}),
    ],
)
def test_forwarded_addresses_are_believed_from_trusted_proxies_alone(
    services: Services, password: str, trusted: str, counted: set[str]
) -> None:
    made_up = ["10.0.0.1", "10.0.0.2, 203.0.113.9"]
    services = replace(services, config=replace(services.config, trusted_proxies=trusted))
    app = create_app(services)
    with listening(make_server(app, services, host="127.0.0.1", port=0)) as address:
        for host in made_up:
            headers = {"origin": address, "x-forwarded-for": host}
            answer = httpx.post(f"{address}/admin/login", data={"password": "x"}, headers=headers)
            assert answer.status_code == 401
    assert set(app.state.admin.logins._attempts) == counted


@pytest.mark.parametrize("proto", [None, "https"])
def test_behind_a_trusted_proxy_the_cookie_follows_the_browsers_scheme(
    services: Services, password: str, proto: str | None
) -> None:
    services = replace(services, config=replace(services.config, trusted_proxies="127.0.0.1"))
    server = make_server(create_app(services), services, host="127.0.0.1", port=0)
    headers = {"origin": "https://lectern.example", "host": "lectern.example"}
    if proto is not None:
        headers["x-forwarded-proto"] = proto
    with listening(server) as address:
        form = {"password": password}
        answer = httpx.post(f"{address}/admin/login", data=form, headers=headers)
    assert answer.status_code == 303
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("__Host-lectern=" if proto else "lectern=")
    assert ("Secure" in cookie) == (proto is not None)


def test_a_proxy_need_not_pass_the_host_on_to_a_browser_of_today(
    browser: TestClient, password: str
) -> None:
    origin = "https://lectern.example"
    for site, status in (("same-origin", 303), ("same-site", 403), ("cross-site", 403)):
        headers = {"origin": origin, "sec-fetch-site": site}
        form = {"password": password}
        answer = browser.post("/admin/login", data=form, headers=headers)
        assert answer.status_code == status


@pytest.mark.parametrize("origin", ["null", "http://evil.example", "http://testserver:81", ""])
def test_forms_of_other_sites_are_refused(browser: TestClient, password: str, origin: str) -> None:
    assert log_in(browser, password, origin=origin).status_code == 403
    assert browser.post("/admin/login", data={"password": password}).status_code == 403


def test_logging_out_ends_the_session(operator: TestClient) -> None:
    token = csrf(operator.get("/admin").text)
    cookies = dict(operator.cookies)
    response = operator.post("/admin/logout", data={"csrf": token}, headers=ORIGIN)
    assert response.headers["location"] == "/admin/login"
    operator.cookies.update(cookies)  # a cookie that was copied is of no use either
    assert operator.get("/admin").status_code == 303


def test_a_form_without_a_session_is_not_waited_for(browser: TestClient) -> None:
    headers = ORIGIN | {"content-type": "application/x-www-form-urlencoded"}
    answer = browser.post("/admin/logout", content=b"csrf=" + b"x" * 10_000, headers=headers)
    assert answer.headers["location"] == "/admin/login"
    assert log_in(browser, "x" * 20_000).status_code == 413


@pytest.mark.parametrize("form", [{}, {"csrf": "wrong"}, {"csrf": ""}, {"csrf": "\u00fc"}])
def test_logging_out_needs_the_pages_own_token(operator: TestClient, form: dict[str, str]) -> None:
    assert operator.post("/admin/logout", data=form, headers=ORIGIN).status_code == 403
    token = csrf(operator.get("/admin").text)
    other = {"origin": "http://evil.example"}
    assert operator.post("/admin/logout", data={"csrf": token}, headers=other).status_code == 403
    assert operator.get("/admin").status_code == 200


def test_nothing_from_elsewhere_and_nothing_inline(operator: TestClient) -> None:
    for path in ("/admin", "/admin/login", "/admin/live", "/admin/documents", "/admin/model"):
        response = operator.get(path)
        policy = response.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", response.text)
        assert not re.search(r'(src|href|action)="(?!/|#)', response.text)


def test_hostile_names_are_shown_as_text(operator: TestClient, seeder: StorageSeeder) -> None:
    files = {"file": ("<img src=x onerror=alert(1)>.txt", b"some text")}
    assert operator.post("/documents", files=files, headers=seeder.headers()).status_code == 202
    page = operator.get("/admin").text + operator.get("/admin/documents").text
    assert "<img src=x" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;.txt" in page


def test_a_page_that_refreshes_itself_does_not_keep_its_session(
    operator: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened_s = time.monotonic()
    clock = SimpleNamespace(monotonic=lambda: now_s)
    monkeypatch.setattr(sessions, "time", clock)
    now_s = opened_s + sessions.IDLE_S - 60.0
    assert operator.get("/admin/live", headers=HX).status_code == 200
    now_s = opened_s + sessions.IDLE_S + 60.0
    assert operator.get("/admin/live", headers=HX).status_code == 401


def test_a_click_keeps_the_session(operator: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    opened_s = time.monotonic()
    clock = SimpleNamespace(monotonic=lambda: now_s)
    monkeypatch.setattr(sessions, "time", clock)
    now_s = opened_s + sessions.IDLE_S - 60.0
    assert operator.get("/admin").status_code == 200
    now_s = opened_s + sessions.IDLE_S + 60.0
    assert operator.get("/admin").status_code == 200


def test_figures_follow_what_happens(
    operator: TestClient, seeder: StorageSeeder, services: Services
) -> None:
    key = seeder.headers()
    assert "No documents yet" in operator.get("/admin/documents").text
    document_id = seeder.upload(_with(operator, key))
    assert "waits for a worker" in operator.get("/admin/live").text
    seeder.publish()
    for _ in range(2):
        asked = operator.post(
            f"/documents/{document_id}/ask",
            json={"question": "When?", "max_tokens": 2, "budget": "exact"},
            headers=key,
        )
        assert asked.status_code == 200
    until(lambda: services.storage.answers.summary().num_answers == 2)
    page = " ".join(operator.get("/admin/live").text.split())
    assert "Nothing waits to be read." in page
    assert "1 hits, 1 misses" in page
    assert 'read" class="number">100 % → 100 %' in page
    documents = operator.get("/admin/documents").text
    assert 'data-label="Hits / misses" class="number">1 / 1<' in documents
    assert f">{seeder.cache.num_tokens:,}<" in documents
    history = operator.get("/admin/history").json()
    assert (sum(history["answers"]), sum(history["hits"])) == (2, 1)
    assert len(history["times"]) == len(history["first_token"]["p95"]) == 145


def _with(client: TestClient, headers: dict[str, str]):
    """A client that sends more headers with its posts."""

    class Client:
        def post(self, *args, **options):
            return client.post(*args, **options, headers=headers)

    return Client()
