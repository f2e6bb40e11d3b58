"""A timeout for request heads, which uvicorn does not have."""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_TIMEOUT_S = 10.0


class HeadTimeoutProtocol(H11Protocol):
    """A connection that is closed if a request's head is not complete in `HEAD_TIMEOUT_S` seconds.

    The time counts from the head's first byte, or from the connection's start for the first head.
    Bodies have a timeout of their own in `app.http.middleware`.
    """

    _timeout: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head."""
        super().connection_made(transport)
        self._start_timeout()

    def data_received(self, data: bytes) -> None:
        """Stop the timeout when a head is complete, and start it at the next head's first byte.

        Args:
            data: the bytes that have arrived.
        """
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_timeout()
        elif self._timeout is None:
            self._start_timeout()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timeout."""
        self._stop_timeout()
        super().connection_lost(exc)

    def _start_timeout(self) -> None:
        self._timeout = self.loop.call_later(HEAD_TIMEOUT_S, self.transport.close)

    def _stop_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None
