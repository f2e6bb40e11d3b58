"""Event streams: frames arrive as they are made, and end when the caller leaves."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator

import httpx
import pytest
from fastapi import FastAPI
from pydantic import BaseModel

from app.http.exchange import ExchangeLimits
from app.http.middleware import RequestLimitsMiddleware
from app.http.request_log import RequestLog
from app.http.sse import EventStream, encode_event
from app.services.shares import Shares
from tests.app.live import send_raw, serving, until


class Frame(BaseModel):
    """The data of an event."""

    n: int
    text: str


class Source:
    """Yields frames until it is closed, and says that it was."""

    def __init__(self, num_frames: int | None, pause_s: float, payload: str = "x") -> None:
        self.started = threading.Event()
        self.closed = threading.Event()
        self.sent = 0
        self._num_frames, self._pause_s, self._payload = num_frames, pause_s, payload

    async def frames(self) -> AsyncGenerator[bytes, None]:
        self.started.set()
        try:
            while self._num_frames is None or self.sent < self._num_frames:
                yield encode_event("piece", Frame(n=self.sent, text=self._payload))
                self.sent += 1
                await asyncio.sleep(self._pause_s)
        finally:
            self.closed.set()


@pytest.fixture
def serve():
    """Serve one source at /."""
    stack = []

    def start(source: Source) -> str:
        app = FastAPI()
        limits = ExchangeLimits(1000, Shares("requests", total=9, per_key=9))
        app.add_middleware(RequestLimitsMiddleware, limits=limits, log=RequestLog())

        @app.get("/")
        async def stream() -> EventStream:
            return EventStream(source.frames())

        server = serving(app)
        stack.append(server)
        return server.__enter__()

    yield start
    for server in stack:
        server.__exit__(None, None, None)


def events(text: str) -> Iterator[str]:
    return (block for block in text.split("\n\n") if block and not block.startswith(":"))


def test_frames_arrive_and_the_stream_ends(serve) -> None:
    response = httpx.get(serve(Source(3, 0.0, 'line\nbreak "ü"')))
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-cache"
    assert "content-length" not in response.headers
    assert "x-request-id" in response.headers
    assert list(events(response.text)) == [
        f'event: piece\ndata: {{"n":{n},"text":"line\\nbreak \\"ü\\""}}' for n in range(3)
    ]


def test_a_silent_stream_is_kept_alive(serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.http.sse.PING_S", 0.02)
    text = httpx.get(serve(Source(2, 0.3))).text
    assert ": ping" in text
    assert len(list(events(text))) == 2


@pytest.mark.parametrize("pause_s", [0.01, 60.0], ids=["talking", "silent"])
def test_a_caller_who_leaves_closes_the_source(serve, pause_s: float) -> None:
    source = Source(None, pause_s)
    connection = send_raw(serve(source), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert source.started.wait(10)
    connection.recv(100)
    connection.close()
    assert source.closed.wait(2)


def test_a_reader_that_does_not_read_is_given_up(serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.http.exchange.MAX_SEND_S", 0.3)
    source = Source(None, 0.0, "x" * 100_000)
    connection = send_raw(serve(source), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    until(lambda: source.sent > 3)
    assert source.closed.wait(10)
    connection.close()
