"""The address that a server listens on; bound before anything slow, so that faults show at once."""

import socket

from common.errors import Permanent

BACKLOG = 128


class CannotServe(Permanent):
    """The server cannot start."""

    code = "cannot_serve"


def listen(host: str, port: int) -> socket.socket:
    """Take the address before the model is loaded; who connects meanwhile waits for it.

    Args:
        port: 0 takes a free one.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)  # two bound sockets may share a port until one listens
    except OSError as error:
        listener.close()
        raise CannotServe(
            f"Cannot listen on {host}:{port} ({error.strerror}). Choose another with --port."
        ) from error
    return listener


def url_of(listener: socket.socket) -> str:
    """The address as a browser takes it."""
    host, port = listener.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"
