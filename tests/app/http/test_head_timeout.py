"""Callers whose requests never become whole are cut off; everybody else is served."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from app.factory import create_app
from app.http.server import make_server
from app.services.services import Services
from tests.app.live import listening, send_raw

HEAD_S = 0.3


@pytest.fixture
def address(services: Services, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The server as it is run, with less patience."""
    monkeypatch.setattr("app.http.head_timeout.HEAD_TIMEOUT_S", HEAD_S)
    server = make_server(create_app(services), services, host="127.0.0.1", port=0)
    with listening(server) as address:
        yield address


@contextmanager
def closed_at_the_end(sockets: list[socket.socket]) -> Iterator[None]:
    try:
        yield
    finally:
        for connection in sockets:
            connection.close()


def is_closed(connection: socket.socket) -> bool:
    connection.settimeout(5)
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


def status(connection: socket.socket) -> int:
    """The status of a response, read to the end of its JSON body."""
    connection.settimeout(5)
    received = b""
    while not received.endswith(b"}"):
        received += connection.recv(65536)
    return int(received.split()[1])


def trickle(connection: socket.socket, seconds: float) -> None:
    """Send a header a byte at a time."""
    end_s = time.monotonic() + seconds
    try:
        while time.monotonic() < end_s:
            connection.sendall(b"x")
            time.sleep(0.05)
    except OSError:
        return  # cut off


def test_heads_that_trickle_in_are_cut_off_and_others_are_served(address: str) -> None:
    slow = [send_raw(address, b"GET /healthz HTTP/1.1\r\nX-Slow: ") for _ in range(50)]
    with closed_at_the_end(slow):
        assert httpx.get(f"{address}/healthz").status_code == 200
        trickle(slow[0], 4 * HEAD_S)
        assert all(map(is_closed, slow))
        assert httpx.get(f"{address}/healthz").status_code == 200


def test_a_connection_that_sends_nothing_is_closed(address: str) -> None:
    connection = send_raw(address, b"")
    with closed_at_the_end([connection]):
        assert is_closed(connection)


def test_the_second_head_of_a_connection_has_a_deadline_too(address: str) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    connection = send_raw(address, request)
    with closed_at_the_end([connection]):
        assert status(connection) == 200
        time.sleep(2 * HEAD_S)  # idle between requests is no offence
        connection.sendall(request)
        assert status(connection) == 200
        connection.sendall(b"GET /heal")
        assert is_closed(connection)


def test_a_head_in_time_may_have_a_body_that_takes_longer(address: str) -> None:
    head = b"POST /documents HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n"
    connection = send_raw(address, head)
    with closed_at_the_end([connection]):
        time.sleep(2 * HEAD_S)
        connection.sendall(b"body")
        assert status(connection) == 401
