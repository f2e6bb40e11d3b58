"""Server-sent events over a connection that is watched for the caller's leaving."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import anyio
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

PING_S = 15.0


def encode(event: str, data: Any) -> bytes:
    """Return one frame: `event:` and JSON `data:`."""
    return format_sse_event(event=event, data_str=json.dumps(data, ensure_ascii=False))


class EventStream(Response):
    """Sends frames as they come, pings when none do, and closes `frames` when the caller leaves."""

    media_type = "text/event-stream"

    def __init__(self, frames: AsyncGenerator[bytes, None]) -> None:
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._frames = frames
        self._writing = anyio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Answer one request."""
        try:
            await self._run(receive, send)
        except* ClientDisconnect:  # a reader too slow to be waited for
            pass

    async def _run(self, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        async with aclosing(self._frames), anyio.create_task_group() as group:
            await send(start)
            group.start_soon(self._watch, receive, group.cancel_scope)
            group.start_soon(self._ping, send)
            async for frame in self._frames:
                await self._write(send, frame, more=True)
            await self._write(send, b"", more=False)
            group.cancel_scope.cancel()

    async def _write(self, send: Send, frame: bytes, *, more: bool) -> None:
        async with self._writing:
            await send({"type": "http.response.body", "body": frame, "more_body": more})

    async def _ping(self, send: Send) -> None:
        while True:
            await anyio.sleep(PING_S)
            await self._write(send, KEEPALIVE_COMMENT, more=True)

    async def _watch(self, receive: Receive, scope: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        scope.cancel()
