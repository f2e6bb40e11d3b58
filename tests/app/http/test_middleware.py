"""What holds for every response: an id, one error body, bounded requests, no internals."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from uuid import UUID, uuid4

import httpx
import pytest
from fastapi import FastAPI, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.testing import capture_logs

from app.http import errors
from app.http.exchange import (
    EXCHANGE,
    MAX_BODY_BYTES,
    MULTIPART_BYTES,
    STRANGERS_BODY_BYTES,
    Exchange,
    ExchangeLimits,
)
from app.http.middleware import RequestLimitsMiddleware
from app.http.request_log import RequestLine, RequestLog
from app.services.shares import Shares
from common.errors import CorruptArtifact, DatabaseUnavailable
from common.line_budget import MAX_LINES
from common.scopes import ALL_SCOPES
from storage.db.records import ApiKeyRecord

pytestmark = pytest.mark.anyio
MAX_UPLOAD_BYTES = 1_000_000
SECRET = "the question was: where is /home/somebody/key.pem?"


KEY = ApiKeyRecord(uuid4(), uuid4(), "laptop", "ab", ALL_SCOPES, datetime.now(UTC), None, None)
OPEN = {"x-key": "valid"}


class Authentication:
    """Takes the headers `OPEN` for a valid key."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (b"x-key", b"valid") in scope["headers"]:
            scope[EXCHANGE].authenticated(KEY)
        await self._app(scope, receive, send)


@pytest.fixture
def stopping_s() -> list[float]:
    """For how many seconds the server has been stopping, as the last item."""
    return [0.0]


@pytest.fixture
async def client(stopping_s: list[float]) -> AsyncIterator[httpx.AsyncClient]:
    """An app with routes that go wrong; requests with the headers `OPEN` have a valid key."""
    app = FastAPI(redirect_slashes=False)
    errors.install(app)
    app.add_middleware(Authentication)
    limits = ExchangeLimits(
        MAX_UPLOAD_BYTES, Shares("requests", total=9, per_key=2), lambda: stopping_s[-1]
    )
    app.add_middleware(RequestLimitsMiddleware, limits=limits, log=RequestLog())

    @app.get("/bug")
    async def bug() -> None:
        raise RuntimeError(SECRET)

    @app.get("/corrupt")
    async def corrupt() -> None:
        raise CorruptArtifact(SECRET)

    @app.get("/away")
    async def away() -> None:
        raise DatabaseUnavailable("The database does not answer.", retry_after_s=7)

    @app.post("/count")
    @app.post("/documents")
    async def count(request: Request) -> int:
        return len(await request.body())

    @app.get("/wait")
    async def wait() -> None:
        await asyncio.sleep(60)

    @app.post("/json")
    async def json(body: dict[str, int]) -> dict[str, int]:
        return body

    transport = httpx.ASGITransport(app)  # an exception that gets through fails the test
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client


async def chunks(num_bytes: int) -> AsyncIterator[bytes]:
    for _ in range(num_bytes // 1000):
        yield b"x" * 1000


def code(response: httpx.Response) -> str:
    """The error's code, after a look at the body's shape."""
    assert set(response.json()) == {"error"}
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    return str(error["code"])


async def test_every_response_has_an_id_of_its_own(client: httpx.AsyncClient) -> None:
    paths = ["/bug", "/away", "/nowhere", "/count", "/count/"]
    ids = [(await client.get(path)).headers["x-request-id"] for path in paths]
    assert len(set(ids)) == len(paths)


@pytest.mark.parametrize("path", ["/bug", "/corrupt"])
async def test_an_internal_error_tells_nothing(
    client: httpx.AsyncClient, path: str, capfd: pytest.CaptureFixture[str]
) -> None:
    response = await client.get(path)
    assert response.status_code == 500
    assert code(response) == "internal_error"
    log = "".join(capfd.readouterr())
    assert log.count("unexpected error") == 1
    for text in (response.text, log):
        assert "somebody" not in text
        assert "Traceback" not in text


async def test_a_passing_fault_says_when_to_come_again(client: httpx.AsyncClient) -> None:
    response = await client.get("/away")
    assert response.status_code == 503
    assert code(response) == "database_unavailable"
    assert response.headers["retry-after"] == "7"


@pytest.mark.parametrize(
    ("method", "path", "status", "expected"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "/bug/", 404, "not_found"),
        ("DELETE", "/bug", 405, "method_not_allowed"),
    ],
)
async def test_unknown_addresses_answer_with_the_error_body(
    client: httpx.AsyncClient, method: str, path: str, status: int, expected: str
) -> None:
    response = await client.request(method, path)
    assert response.status_code == status
    assert code(response) == expected


@pytest.mark.parametrize(
    ("content", "status", "expected"),
    [
        (b'{"a": ', 400, "malformed_json"),
        (b"\xff\xfe{", 400, "malformed_body"),
        (b"[" * 100_000, 400, "malformed_body"),
        (b'{"a": "b"}', 422, "invalid_request"),
        (b"[1]", 422, "invalid_request"),
        (b"", 422, "invalid_request"),
    ],
)
async def test_a_bad_body_is_the_callers_fault(
    client: httpx.AsyncClient, content: bytes, status: int, expected: str
) -> None:
    headers = {"content-type": "application/json"} | OPEN
    response = await client.post("/json", content=content, headers=headers)
    assert response.status_code == status
    assert code(response) == expected


@pytest.mark.parametrize(
    ("path", "headers", "limit"),
    [
        ("/count", {}, STRANGERS_BODY_BYTES),
        ("/documents", {}, STRANGERS_BODY_BYTES),
        ("/count", OPEN, MAX_BODY_BYTES),
        ("/documents", OPEN, MAX_UPLOAD_BYTES + MULTIPART_BYTES),
    ],
)
@pytest.mark.parametrize("chunked", [True, False])
async def test_a_body_over_the_limit_is_refused(
    client: httpx.AsyncClient, path: str, headers: dict[str, str], limit: int, chunked: bool
) -> None:
    def body(num_bytes: int) -> bytes | AsyncIterator[bytes]:
        return chunks(num_bytes) if chunked else b"x" * num_bytes

    fits = await client.post(path, content=body(limit // 1000 * 1000), headers=headers)
    assert fits.status_code == 200
    response = await client.post(path, content=body(limit + 1000), headers=headers)
    assert response.status_code == 413
    assert code(response) == "upload_too_large"


async def test_reading_stops_at_the_limit(client: httpx.AsyncClient) -> None:
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        while True:
            taken += 1000
            yield b"x" * 1000

    assert (await client.post("/count", content=endless(), headers=OPEN)).status_code == 413
    assert taken <= MAX_BODY_BYTES + 10_000


async def test_a_body_that_is_declared_too_long_is_not_read(client: httpx.AsyncClient) -> None:
    async def unwanted() -> AsyncIterator[bytes]:
        raise AssertionError("it was read")
        yield b"x"

    headers = {"content-length": str(MAX_BODY_BYTES + 1)}
    response = await client.post("/count", content=unwanted(), headers=headers)
    assert response.status_code == 413


async def trickle(step_s: float = 0.02) -> AsyncIterator[bytes]:
    while True:
        yield b"x"
        await asyncio.sleep(step_s)


@pytest.mark.parametrize("headers", [{}, OPEN], ids=["stranger", "key"])
@pytest.mark.parametrize("path", ["/count", "/json"])
async def test_a_body_that_trickles_is_cut_off(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, path: str, headers: dict[str, str]
) -> None:
    monkeypatch.setattr("app.http.exchange.BODY_GRACE_S", 0.2)
    monkeypatch.setattr("app.http.exchange.STRANGERS_BODY_S", 0.2)
    monkeypatch.setattr("app.http.exchange.BODY_GROWTH", 1e6)
    async with asyncio.timeout(30):  # a server that waits would hang the tests
        response = await client.post(path, content=trickle(), headers=headers)
    assert response.status_code == 408
    assert code(response) == "request_timeout"


@pytest.mark.parametrize(
    ("num_bytes", "allowed_s"), [(0, 20), (64 * 60**2, 80), (64 * 1024**2, 20 + 1024)]
)
async def test_a_body_must_be_faster_the_longer_it_takes(num_bytes: int, allowed_s: float) -> None:
    scope = {"type": "http", "method": "POST", "path": "/documents", "headers": [], "client": None}
    exchange = Exchange(
        scope, no_message, no_message, ExchangeLimits(1, Shares("", total=1, per_key=1))
    )
    exchange.authenticated(KEY)
    exchange._num_bytes = num_bytes
    assert exchange._allowed_s() == pytest.approx(allowed_s)


async def test_a_body_on_its_way_when_the_server_stops_gets_a_clear_answer(
    client: httpx.AsyncClient, stopping_s: list[float]
) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"x"
        stopping_s.append(6.0)
        async for piece in trickle(1.0):
            yield piece

    for path in ("/count", "/json"):
        stopping_s.append(0.0)
        response = await client.post(path, content=body(), headers=OPEN)
        assert response.status_code == 503
        assert code(response) == "shutting_down"


async def test_a_request_that_is_cancelled_because_the_server_stops_says_so(
    client: httpx.AsyncClient, stopping_s: list[float]
) -> None:
    waiting = asyncio.create_task(client.get("/wait"))
    await asyncio.sleep(0.05)
    stopping_s.append(1.0)
    waiting.cancel()
    response = await waiting
    assert response.status_code == 503
    assert code(response) == "shutting_down"


async def test_one_key_has_a_share_of_open_requests(client: httpx.AsyncClient) -> None:
    waiting = [asyncio.create_task(client.get("/wait", headers=OPEN)) for _ in range(2)]
    await asyncio.sleep(0.05)
    refused = await client.get("/bug", headers=OPEN)
    assert refused.status_code == 429
    assert code(refused) == "too_many_requests"
    assert int(refused.headers["retry-after"]) > 0
    assert (await client.post("/count")).status_code == 200
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    assert (await client.post("/count", headers=OPEN)).status_code == 200


async def test_every_request_is_a_line_of_ids_codes_and_durations(
    client: httpx.AsyncClient,
) -> None:
    with capture_logs() as logs:
        answered = await client.post("/count?secret=canary", content=b"canary", headers=OPEN)
        away = await client.get("/away", headers=OPEN)
        await client.request("CANARY", "/canary", headers=OPEN)
    assert [line["event"] for line in logs] == ["request"] * 3
    first, second, third = logs
    assert answered.status_code == 200
    assert (
        first.items()
        >= {
            "method": "POST",
            "route": "/count",
            "status": 200,
            "num_bytes": 6,
            "key_id": str(KEY.id),
        }.items()
    )
    assert first["duration_ms"] >= 0
    assert (second["status"], second["code"]) == (away.status_code, "database_unavailable")
    assert (third["method"], third["route"], third["code"]) == ("other", "none", "not_found")
    assert "canary" not in repr(logs).lower()


async def test_refusals_to_strangers_are_counted_instead_of_repeated() -> None:
    log = RequestLog()
    scope = {"method": "GET", "path": "/documents", "headers": []}

    def line(key_id: UUID | None) -> RequestLine:
        return RequestLine.of(
            scope, status=401, code="invalid_api_key", seconds=0.1, num_bytes=0, key_id=key_id
        )

    with capture_logs() as logs:
        for _ in range(1000):
            log.write(line(None))
        assert len(logs) == MAX_LINES
        log.count_refusals(even_now=True)
        assert logs[-1].items() >= {"num_requests": 1000 - MAX_LINES, "status": 401}.items()
        for _ in range(50):
            log.write(line(KEY.id))
    assert len(logs) == MAX_LINES + 1 + 50


async def no_message(*_: object) -> Message:
    return {}
