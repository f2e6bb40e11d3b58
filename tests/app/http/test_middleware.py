"""What holds for every response: an id, one error body, bounded requests, no internals."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI, Request

from app.http import errors
from app.http.middleware import MAX_BODY_BYTES, MULTIPART_BYTES, RequestLimitsMiddleware
from common.errors import CorruptArtifact, DatabaseUnavailable

pytestmark = pytest.mark.anyio
MAX_UPLOAD_BYTES = 1_000_000
SECRET = "the question was: where is /home/somebody/key.pem?"


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    """An app with routes that go wrong."""
    app = FastAPI(redirect_slashes=False)
    errors.install(app)
    app.add_middleware(RequestLimitsMiddleware, max_upload_bytes=MAX_UPLOAD_BYTES)

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
    headers = {"content-type": "application/json"}
    response = await client.post("/json", content=content, headers=headers)
    assert response.status_code == status
    assert code(response) == expected


@pytest.mark.parametrize(
    ("path", "limit"),
    [("/count", MAX_BODY_BYTES), ("/documents", MAX_UPLOAD_BYTES + MULTIPART_BYTES)],
)
@pytest.mark.parametrize("chunked", [True, False])
async def test_a_body_over_the_limit_is_refused(
    client: httpx.AsyncClient, path: str, limit: int, chunked: bool
) -> None:
    def body(num_bytes: int) -> bytes | AsyncIterator[bytes]:
        return chunks(num_bytes) if chunked else b"x" * num_bytes

    fits = await client.post(path, content=body(limit // 1000 * 1000))
    assert fits.status_code == 200
    response = await client.post(path, content=body(limit + 1000))
    assert response.status_code == 413
    assert code(response) == "upload_too_large"


async def test_reading_stops_at_the_limit(client: httpx.AsyncClient) -> None:
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        while True:
            taken += 1000
            yield b"x" * 1000

    assert (await client.post("/count", content=endless())).status_code == 413
    assert taken <= MAX_BODY_BYTES + 10_000


async def test_a_body_that_is_declared_too_long_is_not_read(client: httpx.AsyncClient) -> None:
    async def unwanted() -> AsyncIterator[bytes]:
        raise AssertionError("it was read")
        yield b"x"

    headers = {"content-length": str(MAX_BODY_BYTES + 1)}
    response = await client.post("/count", content=unwanted(), headers=headers)
    assert response.status_code == 413


async def test_a_body_that_trickles_is_cut_off(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.http.middleware.BODY_GRACE_S", 0.2)

    async def trickle() -> AsyncIterator[bytes]:
        while True:
            yield b"x"
            await asyncio.sleep(0.02)

    async with asyncio.timeout(30):  # a server that waits would hang the tests
        response = await client.post("/count", content=trickle())
    assert response.status_code == 408
    assert code(response) == "request_timeout"
