"""A server in memory, and the `lectern` command, run as a user runs it."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from cli import main as cli_main
from cli.client import Client

ID = "11111111-2222-4333-8444-555555555555"


def document(**changes: Any) -> dict[str, Any]:
    """A document as the API shows it."""
    return {
        "id": ID,
        "object": "document",
        "filename": "lights.txt",
        "media_type": "text/plain",
        "num_bytes": 2048,
        "status": "ready",
        "error": None,
        "num_tokens": 13_010,
        "num_pages": 1,
        "created_at": 1_780_000_000,
        "ready_at": 1_780_000_060,
        "reading_ms": {"prefill": 41_000.0, "total": 50_000.0},
        "progress": None,
        "stored_bytes": 5 * 1024 * 1024,
    } | changes


def answer(text: str = "Odile Brandt", **changes: Any) -> dict[str, Any]:
    """An answer as the API shows it."""
    return {
        "document_id": ID,
        "answer": text,
        "finish_reason": "stop",
        "evidence": [
            {
                "quote": "Its keeper was\nOdile Brandt.",
                "page": 3,
                "start_char": 45,
                "end_char": 73,
                "weight": 0.8,
            }
        ],
        "budget": {
            "requested": 0.15,
            "applied": 0.15,
            "loaded": 0.1234,
            "raised": False,
            "tolerance": None,
        },
        "usage": {},
        "timings_ms": {"queue": 0.1, "load": 12.0, "first_token": 38.4, "total": 120.0},
        "cache_hit": False,
    } | changes


def events(*frames: tuple[str, dict[str, Any]]) -> httpx.Response:
    """A stream of server-sent events, with a comment as servers send to keep alive."""
    body = ": ping\n\n" + "".join(
        f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in frames
    )
    return httpx.Response(200, text=body, headers={"content-type": "text/event-stream"})


def refusal(status: int, message: str, code: str = "some_code") -> httpx.Response:
    """The API's error body."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return httpx.Response(status, json={"error": error})


@dataclass
class FakeServer:
    """Answers by method and path; keeps the requests that it got."""

    routes: dict[tuple[str, str], Callable[[httpx.Request], httpx.Response]] = field(
        default_factory=dict
    )
    requests: list[httpx.Request] = field(default_factory=list)

    def on(self, method: str, path: str, response: httpx.Response) -> None:
        """Answer with a fixed response."""
        self.routes[method, path] = lambda _request: response

    def handle(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        request.read()
        return self.routes[request.method, request.url.path](request)

    def client(self) -> Client:
        return Client("http://test", "lk_a_b", transport=httpx.MockTransport(self.handle))


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.fixture
def lectern(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Run the command against the server in memory; returns exit code, output and errors."""
    monkeypatch.setattr("cli.main.configure", lambda _level: None)  # it is for a whole process
    monkeypatch.setattr("cli.client.Client", lambda _url, _key: server.client())

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["lectern", *arguments])
        with pytest.raises(SystemExit) as end:
            cli_main.main()
        written = capsys.readouterr()
        return int(end.value.code or 0), written.out, written.err

    return run
