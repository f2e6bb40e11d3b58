"""One request and its response: its id, its limits in bytes and time, and its line in the log."""

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from uuid import uuid4

import anyio
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.http.connection import Connection
from app.http.errors import CODE, BodyRefused, Failure, explain, explain_status
from app.http.request_log import RequestLine
from app.services.shares import Shares
from common.errors import Busy, ShuttingDown, TooManyRequests
from common.owner import Owner
from common.spans import parse_traceparent
from storage.db.records import ApiKeyRecord
from storage.quotas.resources import Resource
from storage.quotas.windows import WindowState

UPLOADS = ("/documents", "/v1/files")  # paths of requests whose body is a file
INLINE = ("/v1/chat/completions", "/v1/responses")  # paths of requests that may hold a file
EXCHANGE = "lectern.exchange"  # where a request's exchange is in its scope
MAX_BODY_BYTES = 256 * 1024
INLINE_FILE_BYTES = 4 * 1024 * 1024  # of a file inside JSON, which is in memory as a whole
STRANGERS_BODY_BYTES = 16 * 1024  # of a request without a key: a login form
STRANGERS_BODY_S = 10.0
MULTIPART_BYTES = 64 * 1024  # boundaries, part headers and small fields around a file
BODY_GRACE_S = 20.0
BODY_GROWTH = 64.0  # bytes for each second squared: a body must be faster the longer it takes
MAX_SEND_S = 30.0
STOP_BODY_S = 5.0  # a body gets so long to arrive when the server stops
LOOK_S = 0.5
SLOW_READER, DISCONNECTED = "slow_reader", "client_disconnected"  # codes in the log alone
STOPPING = "The server is stopping; send the request again in a moment."


@dataclass(frozen=True)
class ExchangeLimits:
    """What holds for all requests.

    Attributes:
        max_upload_bytes: largest file in bytes for `POST /documents`; other bodies must be small.
        open_requests: how many requests each key may have under way.
        stopping_s: returns for how many seconds the server has been stopping, or 0.
        large_bodies: how many bodies with a file inside JSON each key may have under way.
    """

    max_upload_bytes: int
    open_requests: Shares
    stopping_s: Callable[[], float] = lambda: 0.0
    large_bodies: Shares | None = None


class Exchange:
    """One request and its response.

    Attributes:
        request_id: names it in the log and in the response.
        caller: the API key that came with it, once that is known.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, limits: ExchangeLimits) -> None:
        self.request_id = f"req_{uuid4().hex}"
        self.caller: ApiKeyRecord | None = None
        self._scope, self._receive, self._send = scope, receive, send
        self._limits = limits
        self._connection: Connection | None = scope.get(Connection.SCOPE_KEY)
        self._held = ExitStack()
        self._headers: dict[str, str] = {}
        self._num_bytes, self._announced_bytes = 0, content_length(scope)
        self._is_large = False
        self._is_complete = False
        self._status: int | None = None
        self._cut_code: str | None = None
        self._started_s = time.monotonic()
        if self._connection is not None and scope["client"] is not None:
            self._connection.counts_for(scope["client"][0])

    @property
    def trace_parent(self) -> str:
        """The caller's span, as W3C `traceparent`; empty if the request names none."""
        headers = dict(self._scope["headers"])
        return parse_traceparent(headers.get(b"traceparent", b"").decode("latin-1"))

    async def run(self, app: ASGIApp) -> RequestLine:
        """Let the app answer, and return what there is to log; no error gets out."""
        with self._held:
            await self._run(app)
        return RequestLine.of(
            self._scope,
            status=self._status,
            code=self._cut_code or self._scope.get(CODE),
            seconds=time.monotonic() - self._started_s,
            num_bytes=self._num_bytes,
            key_id=None if self.caller is None else self.caller.id,
        )

    def authenticated(self, caller: ApiKeyRecord) -> None:
        """Note whose request this is; it counts as one of that key's from now until its end.

        Raises: TooManyRequests, Busy.
        """
        self.caller = caller
        self.hold(self._limits.open_requests, caller.owner)
        if self._connection is not None and not self._connection.authenticated():
            raise Busy("The server has as many requests under way as it takes; try again soon.")

    def note_window(self, state: WindowState | None) -> None:
        """Tell the caller how a limit stands, if one does, in headers that `openai` knows."""
        if state is None:
            return
        what = "tokens" if state.resource is Resource.TOKENS else "requests"
        self._headers[f"x-ratelimit-limit-{what}"] = str(state.limit)
        self._headers[f"x-ratelimit-remaining-{what}"] = str(state.remaining)
        self._headers[f"x-ratelimit-reset-{what}"] = format_reset(state.reset_s)

    def add_header(self, name: str, value: str) -> None:
        """Let the response have a header."""
        self._headers[name] = value

    def at_end(self, call: Callable[[], None]) -> None:
        """Call something that returns at once when the request ends, however it ends."""
        self._held.callback(call)

    def hold(self, shares: Shares, owner: Owner) -> None:
        """Hold a place until the request ends. Raises: TooManyRequests, Busy."""
        self._held.enter_context(shares.place(owner))

    async def receive(self) -> Message:
        """Receive a message, within the limits. Raises: BodyRefused."""
        if self._is_complete:
            return await self._receive()  # after the body, only a disconnect can follow
        if content_length(self._scope) > self._max_bytes():
            raise BodyRefused(explain_status(413))
        self._hold_large_body()
        message = await self._receive_in_time()
        self._num_bytes += len(message.get("body", b""))
        self._is_complete = not message.get("more_body", False)
        if self._num_bytes > self._max_bytes():
            raise BodyRefused(explain_status(413))
        return message

    async def send(self, message: Message) -> None:
        """Send a message with the headers that all responses have.

        Raises: ClientDisconnect if the caller reads too slowly.
        """
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["x-request-id"] = self.request_id
            headers["x-content-type-options"] = "nosniff"
            headers.setdefault("cache-control", "no-store")
            headers.update(self._headers)
        if self._connection is not None and not self._connection.is_full:
            await self._send(message)  # which does not wait
            return
        with anyio.move_on_after(MAX_SEND_S) as timeout:
            await self._send(message)
        if timeout.cancelled_caught:
            self._cut_code = SLOW_READER
            if self._connection is not None:  # it would keep what was not read until it is
                self._connection.abort(SLOW_READER)
            raise ClientDisconnect

    async def _run(self, app: ASGIApp) -> None:
        try:
            await app(self._scope, self.receive, self.send)
        except (ClientDisconnect, BrokenPipeError):
            self._cut_code = self._cut_code or DISCONNECTED
        except BodyRefused as error:
            await self._send_failure(error.failure)
        except HTTPException as error:
            await self._send_failure(explain_status(error.status_code))
        except Exception as error:
            await self._send_failure(explain(error))
        except asyncio.CancelledError:
            if not self._limits.stopping_s():
                raise
            await self._send_failure(explain(ShuttingDown(STOPPING)))

    def _hold_large_body(self) -> None:
        """Hold a place for a body that holds a file, once it is larger than others may be.

        Raises: BodyRefused.
        """
        places, largest = self._limits.large_bodies, max(self._num_bytes, self._announced_bytes)
        if largest <= MAX_BODY_BYTES or self._scope["path"] not in INLINE or places is None:
            return
        if self._is_large or self.caller is None:
            return
        self._is_large = True
        try:
            self.hold(places, self.caller.owner)
        except (TooManyRequests, Busy) as error:
            raise BodyRefused(explain(error)) from error

    def _max_bytes(self) -> int:
        if self.caller is None:
            return STRANGERS_BODY_BYTES
        if self._scope["method"] == "POST" and self._scope["path"] in UPLOADS:
            return self._limits.max_upload_bytes + MULTIPART_BYTES
        if self._scope["method"] == "POST" and self._scope["path"] in INLINE:
            most = min(INLINE_FILE_BYTES, self._limits.max_upload_bytes)
            return MAX_BODY_BYTES + 4 * (most // 3 + 1)
        return MAX_BODY_BYTES

    async def _receive_in_time(self) -> Message:
        """Receive a message; wait only until the body is too slow or the server has to stop."""
        while True:
            remaining_s = self._started_s + self._allowed_s() - time.monotonic()
            with anyio.move_on_after(max(0.0, min(remaining_s, LOOK_S))):
                return await self._receive()
            if self._limits.stopping_s() > STOP_BODY_S:
                raise BodyRefused(explain(ShuttingDown(STOPPING)))
            if remaining_s <= LOOK_S:
                raise BodyRefused(explain_status(408))

    def _allowed_s(self) -> float:
        """Return the seconds in which as many bytes as have arrived must have done so."""
        if self.caller is None:
            return STRANGERS_BODY_S
        return BODY_GRACE_S + math.sqrt(self._num_bytes / BODY_GROWTH)

    async def _send_failure(self, failure: Failure) -> None:
        """Send the error body, unless a response has begun already."""
        if self._status is None:
            await failure.response()(self._scope, self._receive, self.send)


def exchange_of(request: HTTPConnection) -> Exchange:
    """Return the exchange that a request belongs to."""
    exchange: Exchange = request.scope[EXCHANGE]
    return exchange


def format_reset(seconds: float) -> str:
    """Return a duration as the `openai` API writes it: `7s`, `6m0s`, `2h0m59s`."""
    minutes, seconds_left = divmod(max(0, math.ceil(seconds)), 60)
    hours, minutes_left = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes_left}m{seconds_left}s"
    return f"{minutes}m{seconds_left}s" if minutes else f"{seconds_left}s"


def content_length(scope: Scope) -> int:
    """Return how many bytes a request says that its body has; 0 if it does not say so."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0
