"""A real server on a real port, for what only sockets show."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp


@contextmanager
def listening(server: uvicorn.Server) -> Iterator[str]:
    """Run a server on a thread; yield its address; stop it."""
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{_port(server)}"
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive(), "the server does not stop"


@contextmanager
def serving(app: ASGIApp) -> Iterator[str]:
    """Serve any ASGI app."""
    config = uvicorn.Config(app, port=0, log_config=None, timeout_graceful_shutdown=2)
    with listening(uvicorn.Server(config)) as address:
        yield address


def until(condition, timeout_s: float = 10.0) -> None:
    """Wait until something holds."""
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s, "waited in vain"
        time.sleep(0.01)


def send_raw(address: str, request: bytes) -> socket.socket:
    """Send bytes as they are and return the open socket."""
    host, port = address.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=10)
    connection.sendall(request)
    return connection


def _port(server: uvicorn.Server) -> int:
    until(lambda: server.started)
    port: int = server.servers[0].sockets[0].getsockname()[1]
    return port
