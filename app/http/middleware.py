"""The outermost middleware: request ids, limits on bodies and times, and errors as one body."""

import time
from uuid import uuid4

import anyio
import structlog
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.http.errors import Failure, explain, explain_status

MAX_BODY_BYTES = 256 * 1024
MULTIPART_BYTES = 64 * 1024  # boundaries, part headers and small fields around a file
BODY_GRACE_S = 20.0
MIN_BYTES_PER_S = 1024.0
MAX_SEND_S = 30.0


class RequestLimitsMiddleware:
    """ASGI middleware around the whole app.

    It gives every request an id, limits the size of its body and the time in which the body must
    arrive and the response be read, and turns an exception that nothing else has handled into the
    one error body, so that no traceback reaches a caller.

    Args:
        app: the app inside.
        max_upload_bytes: largest file in bytes for `POST /documents`; other bodies must be small.
    """

    def __init__(self, app: ASGIApp, max_upload_bytes: int) -> None:
        self._app = app
        self._max_upload_bytes = max_upload_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self._max_bytes(scope))
        with structlog.contextvars.bound_contextvars(request_id=exchange.request_id):
            await exchange.run(self._app)

    def _max_bytes(self, scope: Scope) -> int:
        if scope["method"] == "POST" and scope["path"] == "/documents":
            return self._max_upload_bytes + MULTIPART_BYTES
        return MAX_BODY_BYTES


class _Exchange:
    """One request and its response."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, max_bytes: int) -> None:
        self.request_id = f"req_{uuid4().hex}"
        self._scope, self._receive, self._send = scope, receive, send
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._is_complete = False
        self._status: int | None = None
        self._started_s = time.monotonic()
        self._log = structlog.get_logger("lectern.http")

    async def run(self, app: ASGIApp) -> None:
        try:
            await app(self._scope, self.receive, self.send)
        except (ClientDisconnect, BrokenPipeError):
            self._log.info("client disconnected", path=self._path())
        except HTTPException as error:
            await self._send_failure(explain_status(error.status_code))
        except Exception as error:
            await self._send_failure(explain(error))
        finally:
            self._log.debug("request", path=self._path(), status=self._status)

    async def receive(self) -> Message:
        if self._is_complete:
            return await self._receive()  # after the body, only a disconnect can follow
        if _content_length(self._scope) > self._max_bytes:
            raise HTTPException(413)
        message = await self._receive_in_time()
        self._num_bytes += len(message.get("body", b""))
        self._is_complete = not message.get("more_body", False)
        if self._num_bytes > self._max_bytes:
            raise HTTPException(413)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["x-request-id"] = self.request_id
            headers["x-content-type-options"] = "nosniff"
            headers.setdefault("cache-control", "no-store")
        with anyio.move_on_after(MAX_SEND_S) as timeout:
            await self._send(message)
        if timeout.cancelled_caught:
            raise ClientDisconnect

    async def _receive_in_time(self) -> Message:
        """Receive a message; the body gets more time the more of it has arrived."""
        allowed_s = BODY_GRACE_S + self._num_bytes / MIN_BYTES_PER_S
        remaining_s = self._started_s + allowed_s - time.monotonic()
        with anyio.move_on_after(max(0.0, remaining_s)):
            return await self._receive()
        raise HTTPException(408)

    async def _send_failure(self, failure: Failure) -> None:
        """Send the error body, unless a response has begun already."""
        if self._status is None:
            await failure.response()(self._scope, self._receive, self.send)

    def _path(self) -> str:
        """Return the route's path, which contains no ids, for the log."""
        return str(getattr(self._scope.get("route"), "path", "unrouted"))


def _content_length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0
