"""Run a server or a worker until it is told to stop, or a server behind a demo."""

import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from app.http.server import Server, make_server
from cli.compose import Secrets, Stack, make_secrets, open_stack, open_worker
from cli.listener import CannotServe, url_of
from cli.settings import Settings
from cli.show import say
from common.logging import configure
from workers.worker import Worker

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 40.0


def run_server(console: Console, settings: Settings, listener: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM; answers that have begun may finish first.

    Args:
        listener: a bound socket.
    Raises: UnsupportedModel.
    """
    configure(settings.log_level, as_json=settings.log_json)
    say(console, f"Loading {settings.model_files().path} ...")
    stack = open_stack(settings)
    url = url_of(listener)
    _show_secrets(console, make_secrets(stack))
    say(console, f"Lectern serves on {url} (dashboard: {url}/admin). Ctrl-C stops it.")
    with _embedded_worker(stack):
        _make_server(stack, listener).run(sockets=[listener])


def run_worker(console: Console, settings: Settings) -> None:
    """Read waiting documents until SIGINT or SIGTERM."""
    configure(settings.log_level, as_json=settings.log_json)
    say(console, f"Loading {settings.model_files().path} ...")
    worker, storage = open_worker(settings)
    say(console, "Waiting for documents. Ctrl-C stops the worker.")
    try:
        _run_until_signal(worker)
    finally:
        storage.close()


@contextmanager
def serve_in_background(stack: Stack, listener: socket.socket) -> Iterator[str]:
    """Serve on a thread while the block runs; the block gets the server's URL.

    Args:
        listener: a bound socket.
    Raises: CannotServe.
    """
    server = _make_server(stack, listener)
    thread = threading.Thread(target=server.run, args=([listener],), name="server", daemon=True)
    with _embedded_worker(stack):
        thread.start()
        try:
            _wait_until_started(server, thread)
            yield url_of(listener)
        finally:
            server.handle_exit(signal.SIGTERM, None)
            thread.join(STOP_TIMEOUT_S)


def _show_secrets(console: Console, secrets: Secrets) -> None:
    """Print the secrets that the first start has made, because only their hashes are stored."""
    if secrets.api_key is not None:
        say(console, f"API key, shown only now:            {secrets.api_key}")
    if secrets.admin_password is not None:
        say(console, f"Dashboard password, shown only now: {secrets.admin_password}")


def _make_server(stack: Stack, listener: socket.socket) -> Server:
    host, port = listener.getsockname()[:2]
    return make_server(stack.app, stack.services, host=host, port=port)


@contextmanager
def _embedded_worker(stack: Stack) -> Iterator[None]:
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
        thread.join(STOP_TIMEOUT_S)
        stack.storage.close()


def _run_until_signal(worker: Worker) -> None:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    worker.run(stop)


def _wait_until_started(server: Server, thread: threading.Thread) -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline_s:
            raise CannotServe("The server did not start; its log says why.")
        time.sleep(0.05)
