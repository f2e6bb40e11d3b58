"""Callers who hold connections without using them are cut off; everybody else is served."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import httpx
import pytest
from fastapi import Response
from structlog.testing import capture_logs

from app.factory import create_app
from app.http.server import make_server
from app.services.services import Services
from cli.listener import listen
from tests.app.live import listening, send_raw, until
from tests.app.seeding import StorageSeeder

HEAD_S = 0.3


@pytest.fixture
def address(services: Services, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The server as it is run, with less patience."""
    for name in ("HEAD_TIMEOUT_S", "REST_TIMEOUT_S", "FLUSH_TIMEOUT_S"):
        monkeypatch.setattr(f"app.http.connection.{name}", HEAD_S)
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
        piece = connection.recv(65536)
        assert piece, "the connection is closed"
        received += piece
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


def test_a_head_in_time_may_have_a_body_that_takes_longer(
    address: str, seeder: StorageSeeder
) -> None:
    key = seeder.headers()["authorization"]
    head = f"POST /documents HTTP/1.1\r\nHost: x\r\nAuthorization: {key}\r\nContent-Length: 4\r\n"
    connection = send_raw(
        address, f"{head}Content-Type: multipart/form-data; boundary=x\r\n\r\n".encode()
    )
    with closed_at_the_end([connection]):
        time.sleep(2 * HEAD_S)
        connection.sendall(b"body")
        assert status(connection) == 400


def test_the_rest_of_a_body_that_was_refused_is_not_waited_for(address: str) -> None:
    head = b"POST /documents HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
    connection = send_raw(address, head)
    with closed_at_the_end([connection]):
        assert status(connection) == 401
        trickle(connection, 4 * HEAD_S)
        assert is_closed(connection)


def test_a_body_that_was_refused_and_comes_whole_keeps_the_connection(address: str) -> None:
    head = b"POST /documents HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n"
    connection = send_raw(address, head)
    with closed_at_the_end([connection]):
        assert status(connection) == 401
        connection.sendall(b"body")
        time.sleep(2 * HEAD_S)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert status(connection) == 200


def test_a_response_that_nobody_reads_is_given_up(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.http.connection.FLUSH_TIMEOUT_S", HEAD_S)
    app = create_app(services)
    large = b"x" * (64 << 20)  # more than all buffers hold
    app.add_api_route("/large", lambda: Response(large), methods=["GET"])
    server = make_server(app, services, host="127.0.0.1", port=0)
    with listening(server) as address:
        request = b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        connection = send_raw(address, request)
        with closed_at_the_end([connection]):
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
            until(lambda: not server.server_state.connections)


def test_when_there_are_too_many_connections_the_slowest_goes(
    services: Services, seeder: StorageSeeder
) -> None:
    config = replace(services.config, max_connections=80)
    services = replace(services, config=config)
    server = make_server(create_app(services), services, host="127.0.0.1", port=0)
    login = b"POST /admin/login HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\npass"
    listing = "GET /documents HTTP/1.1\r\nHost: x\r\nAuthorization: {}\r\n\r\n"
    with listening(server) as address:
        mine = send_raw(address, listing.format(seeder.headers()["authorization"]).encode())
        assert status(mine) == 200
        slow = []
        for number in range(200):
            slow.append(send_raw(address, login if number % 2 else b"GET / HTTP/1.1\r\nX-Slow: "))
        with closed_at_the_end([mine, *slow]), capture_logs() as logs:
            assert httpx.get(f"{address}/healthz", timeout=5).status_code == 200
            assert httpx.get(f"{address}/documents", headers=seeder.headers()).status_code == 200
            mine.sendall(listing.format(seeder.headers()["authorization"]).encode())
            assert status(mine) == 200, "a connection that carried a key is closed last"
            # A login that was refused in between has begun to wait anew; heads never end.
            assert all(is_closed(one) for one in slow[:100:2])
            assert len(server.server_state.connections) <= 80
            server._connections.log_cuts()
    counts = [line["num_connections"] for line in logs if line["event"] == "connections closed"]
    assert len(counts) == 1
    assert counts[0] >= 100


def test_accepted_connections_send_at_once(services: Services) -> None:
    server = make_server(create_app(services), services, host="127.0.0.1", port=0)
    with listen("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            until(lambda: server.started)
            with socket.create_connection(listener.getsockname()):
                until(lambda: bool(server.server_state.connections))
                (connection,) = server.server_state.connections
                accepted = connection.transport.get_extra_info("socket")
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        finally:
            server.should_exit = True
            thread.join(20)
