"""A connection that no caller can hold for longer than it uses it, which uvicorn does not ensure.

uvicorn waits without end for a request's head, for the rest of a body after the response was sent,
and until a caller has read what was sent. Bodies of requests under way, and responses that are
being sent, have limits of their own in `app.http.exchange`.
"""

import asyncio
from typing import Any, ClassVar

import h11
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from app.http.connections import Connections, address_group

HEAD_TIMEOUT_S = 10.0
REST_TIMEOUT_S = 10.0  # for the rest of a body that nobody wants any more
FLUSH_TIMEOUT_S = 10.0  # for a response that was sent and not read


class Connection(H11Protocol):
    """A connection with timeouts, which is in a register of all connections.

    Args:
        connections: the register.
        options: those of uvicorn's own class.
    """

    SCOPE_KEY: ClassVar[str] = "lectern.connection"  # where a request's scope has its connection

    def __init__(self, *, connections: Connections, **options: Any) -> None:
        super().__init__(**options)
        self._register = connections
        self._timeout: asyncio.TimerHandle | None = None
        self._is_known = False
        self._is_open = False
        app = self.app

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            scope[Connection.SCOPE_KEY] = self
            await app(scope, receive, send)

        self.app = answer

    # -- what the transport calls --------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head."""
        super().connection_made(transport)
        self._is_open = True
        self._cut_after(HEAD_TIMEOUT_S, "slow_head")
        self._register.add(self, self._own_address())

    def data_received(self, data: bytes) -> None:
        """Stop the timeout when a head is complete, and start it at the next head's first byte.

        Args:
            data: the bytes that have arrived.
        """
        if not self._is_open:
            return
        super().data_received(data)
        if self.transport.is_closing():
            self._abort_unless_flushed()
        elif self._is_answering() or self._is_idle():
            self._stop_timeout()
        elif self._timeout is None:
            self._cut_after(HEAD_TIMEOUT_S, "slow_head")

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timeout."""
        self._is_open = False
        self._stop_timeout()
        self._register.remove(self)
        super().connection_lost(exc)

    # -- what uvicorn calls --------------------------------------------------------------------

    def on_response_complete(self) -> None:
        """Wait for the rest of the body for a while, or for the next head as long as it takes."""
        if self._is_open:
            self._register.wait(self, self._own_address(), known=self._is_known)
            if self.conn.their_state is h11.SEND_BODY:
                self._cut_after(REST_TIMEOUT_S, "slow_body")
        super().on_response_complete()
        self._abort_unless_flushed()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection on which nothing happens."""
        super().timeout_keep_alive_handler()
        self._abort_unless_flushed()

    def shutdown(self) -> None:
        """Close a connection that is idle, or else after its response, since the server stops."""
        super().shutdown()
        self._abort_unless_flushed()

    # -- what an exchange calls ----------------------------------------------------------------

    def counts_for(self, host: str) -> None:
        """Count the connection for the address that a request came from, while it is under way.

        Args:
            host: an address, other than the connection's own if a proxy has forwarded the request.
        """
        if self._is_open and address_group(host) != self._own_address():
            self._register.wait(self, address_group(host), known=self._is_known)

    def authenticated(self) -> bool:
        """Keep the connection open until the present request's end: it has a valid key.

        Returns: False if too many such requests are under way.
        """
        self._is_known = True
        return not self._is_open or self._register.begin(self)

    @property
    def is_full(self) -> bool:
        """Whether a message that is sent now waits until the caller has read."""
        return self.flow.write_paused

    def abort(self, code: str) -> None:
        """Close the connection at once, and throw away what was not read.

        Args:
            code: why, for the log.
        """
        if self._is_open:
            self._register.note_cut(code)
            self.close_to_make_room()

    def close_to_make_room(self) -> None:
        """Close the connection at once; see `Closable.close_to_make_room`."""
        self._is_open = False
        self._stop_timeout()
        self.transport.abort()

    def _own_address(self) -> str:
        return address_group(self.client[0]) if self.client else "unknown"

    def _is_answering(self) -> bool:
        """Whether a request is under way whose response is not complete."""
        return self.cycle is not None and not self.cycle.response_complete

    def _is_idle(self) -> bool:
        """Whether nothing has arrived since the last request."""
        return self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]

    def _abort_unless_flushed(self) -> None:
        """Close a closing connection for good if the caller does not read the rest in time."""
        if self._is_open and self.transport.is_closing():
            self._cut_after(FLUSH_TIMEOUT_S, "slow_reader")

    def _cut_after(self, seconds: float, code: str) -> None:
        self._stop_timeout()
        self._timeout = self.loop.call_later(seconds, self.abort, code)

    def _stop_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None
