"""The outermost layer: names every request, bounds its body, lets no traceback out."""

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
PATIENCE_S = 20.0
MIN_BYTES_PER_S = 1024.0
MAX_SEND_S = 30.0


class Envelope:
    """ASGI middleware around the whole app.

    Args:
        app: what answers.
        max_upload_bytes: largest file of `POST /documents`; other bodies are small.
    """

    def __init__(self, app: ASGIApp, max_upload_bytes: int) -> None:
        self._app = app
        self._max_upload_bytes = max_upload_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; whatever goes wrong becomes the one error body."""
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
        self._complete = False
        self._status: int | None = None
        self._started_s = time.monotonic()
        self._log = structlog.get_logger("lectern.http")

    async def run(self, app: ASGIApp) -> None:
        try:
            await app(self._scope, self.receive, self.send)
        except (ClientDisconnect, BrokenPipeError):
            self._log.info("client went away", path=self._route())
        except HTTPException as error:
            await self._refuse(explain_status(error.status_code))
        except Exception as error:
            await self._refuse(explain(error))
        finally:
            self._log.debug("request", path=self._route(), status=self._status)

    async def receive(self) -> Message:
        if self._complete:
            return await self._receive()  # only a disconnect can follow
        if _content_length(self._scope) > self._max_bytes:
            raise HTTPException(413)
        message = await self._receive_in_time()
        self._num_bytes += len(message.get("body", b""))
        self._complete = not message.get("more_body", False)
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
        with anyio.move_on_after(MAX_SEND_S) as patience:
            await self._send(message)
        if patience.cancelled_caught:
            raise ClientDisconnect

    async def _receive_in_time(self) -> Message:
        allowed_s = PATIENCE_S + self._num_bytes / MIN_BYTES_PER_S
        left_s = self._started_s + allowed_s - time.monotonic()
        with anyio.move_on_after(max(0.0, left_s)):
            return await self._receive()
        raise HTTPException(408)

    async def _refuse(self, failure: Failure) -> None:
        if self._status is None:
            await failure.response()(self._scope, self._receive, self.send)

    def _route(self) -> str:
        return str(getattr(self._scope.get("route"), "path", "unrouted"))


def _content_length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0
