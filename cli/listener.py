"""What a server shows of itself: its socket, bound before anything slow, its URL, its secrets."""

import socket
from dataclasses import dataclass

from common.errors import Permanent

BACKLOG = 128


class CannotServe(Permanent):
    """The server cannot start."""

    code = "cannot_serve"


@dataclass(frozen=True)
class Secrets:
    """Secrets that the first start makes and shows once; None if they were made before."""

    api_key: str | None
    admin_password: str | None


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; clients that connect before the server runs have to wait.

    Args:
        port: the port; 0 chooses a free one.
    Raises: CannotServe if the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio switches Nagle's algorithm off only for sockets that name their protocol; with it, a
    # response waits for the client's delayed acknowledgement, 40 ms on a kept connection.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)  # until one of them listens, two sockets can be bound to a port
    except OSError as error:
        listener.close()
        raise CannotServe(
            f"Cannot listen on {host}:{port} ({error.strerror}). Choose another with --port."
        ) from error
    return listener


def url_of(listener: socket.socket) -> str:
    """Return the URL at which a browser on this machine reaches the socket."""
    host, port = listener.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"
