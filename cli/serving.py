"""Running a server with its embedded worker, in the foreground or behind a demo."""

import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from app.http.server import Server, make_server
from cli.compose import Stack
from cli.listener import CannotServe, url_of
from workers.worker import Worker

START_S = 60.0
STOP_S = 40.0


def serve(stack: Stack, listener: socket.socket) -> None:
    """Serve until a signal says stop; to be called on the main thread."""
    with _working(stack):
        _make_server(stack, listener).run(sockets=[listener])


@contextmanager
def serving(stack: Stack, listener: socket.socket) -> Iterator[str]:
    """Serve on a thread while the block runs; gives the URL."""
    server = _make_server(stack, listener)
    thread = threading.Thread(target=server.run, args=([listener],), name="server", daemon=True)
    with _working(stack):
        thread.start()
        try:
            _wait_until_started(server, thread)
            yield url_of(listener)
        finally:
            server.handle_exit(signal.SIGTERM, None)
            thread.join(STOP_S)


def work(worker: Worker) -> None:
    """Run a worker on this thread until SIGINT or SIGTERM."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    worker.run(stop)


def _make_server(stack: Stack, listener: socket.socket) -> Server:
    host, port = listener.getsockname()[:2]
    return make_server(stack.app, stack.services, host=host, port=port)


@contextmanager
def _working(stack: Stack) -> Iterator[None]:
    """Run the embedded worker, if there is one, while the block runs; then close storage."""
    stop = threading.Event()
    worker = stack.worker
    thread = threading.Thread(
        target=worker.run if worker else stop.wait,
        args=(stop,) if worker else (),
        name="worker",
        daemon=True,
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(STOP_S)
        stack.storage.close()


def _wait_until_started(server: Server, thread: threading.Thread) -> None:
    deadline_s = time.monotonic() + START_S
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline_s:
            raise CannotServe("The server did not start; its log says why.")
        time.sleep(0.05)
