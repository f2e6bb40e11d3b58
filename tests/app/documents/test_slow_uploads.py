"""Uploads that are slow in whatever way take nothing away from anybody else."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing

import httpx
import pytest

from app.factory import create_app
from app.http.server import make_server
from app.services import upload_room
from app.services.services import Services
from ingest.inspect import Kind
from tests.app.live import listening, send_raw, until
from tests.app.seeding import TEXT, StorageSeeder
from tests.ingest import samples

NUM_SLOW = 45  # more than the threads that requests share


@pytest.fixture
def inspected(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Files that take a process take it until this is set."""
    release = threading.Event()

    def inspect(*_: object) -> Kind:
        assert release.wait(60)
        return Kind("pdf", "application/pdf")

    monkeypatch.setattr(upload_room, "inspect_limited", inspect)
    monkeypatch.setattr(upload_room, "WAIT_S", 60.0)
    yield release
    release.set()


def send(address: str, headers: dict[str, str], name: str, data: bytes) -> httpx.Response:
    files = {"file": (name, data)}
    return httpx.post(f"{address}/documents", files=files, headers=headers, timeout=60)


def test_requests_are_answered_while_slow_files_are_uploaded(
    address: str, services: Services, seeder: StorageSeeder, inspected: threading.Event
) -> None:
    ready = seeder.add("ready.txt")
    seeder.publish()
    mine, other = seeder.headers(), seeder.headers("other")
    with ThreadPoolExecutor(NUM_SLOW) as pool:
        answers: list[Future[httpx.Response]] = [
            pool.submit(send, address, mine, "a.pdf", samples.encrypted_pdf("") + b"%%%d" % number)
            for number in range(NUM_SLOW)
        ]
        per_key = services.config.uploads_per_key
        until(lambda: sum(answer.done() for answer in answers) == NUM_SLOW - per_key)
        refused = [answer.result() for answer in answers if answer.done()]
        assert {answer.status_code for answer in refused} == {429}
        assert {answer.json()["error"]["code"] for answer in refused} == {"too_many_requests"}
        assert all(int(answer.headers["retry-after"]) > 0 for answer in refused)

        with httpx.Client(base_url=address, headers=mine, timeout=10) as client:
            assert client.get("/healthz").status_code == 200
            assert set(client.get("/readyz").json()["reasons"]) <= {"workers"}
            assert len(client.get("/documents").json()["data"]) == 1
            question = {"question": "When?", "max_tokens": 2}
            assert client.post(f"/documents/{ready.id}/ask", json=question).status_code == 200
        assert send(address, other, "b.txt", b"another key's text").status_code == 202
        inspected.set()
        assert {answer.result().status_code for answer in answers} == {202, 429}


def test_an_upload_on_its_way_when_the_server_stops_gets_a_clear_answer(
    services: Services, seeder: StorageSeeder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.http.exchange.STOP_BODY_S", 0.5)
    server = make_server(create_app(services), services, host="127.0.0.1", port=0)
    key = seeder.headers()["authorization"]
    head = (
        f"POST /documents HTTP/1.1\r\nHost: x\r\nAuthorization: {key}\r\nContent-Length: 1000\r\n"
        "Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n"
    )
    with listening(server) as address, closing(send_raw(address, head.encode())) as slow:
        until(lambda: services.upload_room.places.num_taken() == 1)
        server.handle_exit(15, None)
        answer = b""
        while not answer.endswith(b"}"):
            piece = slow.recv(10_000)
            assert piece, "the connection was closed without an answer"
            answer += piece
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b'"shutting_down"' in answer
    assert b"retry-after" in answer


def test_an_upload_that_ends_in_time_is_accepted_while_the_server_stops(
    services: Services, seeder: StorageSeeder
) -> None:
    server = make_server(create_app(services), services, host="127.0.0.1", port=0)
    key = seeder.headers()["authorization"]
    part = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
    body = part + TEXT.encode() + b"\r\n--x--\r\n"
    head = (
        f"POST /documents HTTP/1.1\r\nHost: x\r\nAuthorization: {key}\r\n"
        f"Content-Length: {len(body)}\r\nContent-Type: multipart/form-data; boundary=x\r\n\r\n"
    )
    with (
        listening(server) as address,
        closing(send_raw(address, head.encode() + body[:50])) as slow,
    ):
        until(lambda: services.upload_room.places.num_taken() == 1)
        server.handle_exit(15, None)
        until(lambda: server.should_exit)
        slow.sendall(body[50:])
        assert slow.recv(10_000).startswith(b"HTTP/1.1 202 ")


def test_strangers_with_slow_bodies_keep_no_operator_out(
    services: Services, seeder: StorageSeeder, password: str
) -> None:
    server = make_server(create_app(services), services, host="127.0.0.1", port=0)
    slow = b"POST /admin/login HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\npassword="
    with listening(server) as address, ExitStack() as held:
        for _ in range(300):
            held.enter_context(closing(send_raw(address, slow)))
        started_s = time.monotonic()
        assert httpx.get(f"{address}/healthz", timeout=5).status_code == 200
        headers = seeder.headers()
        assert httpx.get(f"{address}/documents", headers=headers, timeout=5).status_code == 200
        form, origin = {"password": password}, {"origin": address}
        answer = httpx.post(f"{address}/admin/login", data=form, headers=origin, timeout=5)
        assert answer.status_code == 303
        until(lambda: len(server.server_state.connections) < 10, timeout_s=30)
        assert time.monotonic() - started_s < 30
