"""The commands that run until they are told to stop."""

import socket

from rich.console import Console

from cli.compose import Secrets, make_secrets, open_stack, open_worker
from cli.listener import url_of
from cli.serving import serve, work
from cli.settings import Settings
from cli.show import say
from common.logging import configure


def run(console: Console, settings: Settings, listener: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM; running answers may finish first.

    Args:
        listener: a bound socket.
    Raises: UnsupportedModel.
    """
    configure(settings.log_level, as_json=settings.log_json)
    say(console, f"Loading {settings.model_files().path} ...")
    stack = open_stack(settings)
    url = url_of(listener)
    show_secrets(console, make_secrets(stack))
    say(console, f"Lectern serves on {url} (dashboard: {url}/admin). Ctrl-C stops it.")
    serve(stack, listener)


def run_worker(console: Console, settings: Settings) -> None:
    """Read waiting documents until SIGINT or SIGTERM."""
    configure(settings.log_level, as_json=settings.log_json)
    say(console, f"Loading {settings.model_files().path} ...")
    worker, storage = open_worker(settings)
    say(console, "Waiting for documents. Ctrl-C stops the worker.")
    try:
        work(worker)
    finally:
        storage.close()


def show_secrets(console: Console, secrets: Secrets) -> None:
    """Print what a first start made; only its hash is kept."""
    if secrets.api_key is not None:
        say(console, f"API key, shown only now:            {secrets.api_key}")
    if secrets.admin_password is not None:
        say(console, f"Dashboard password, shown only now: {secrets.admin_password}")
