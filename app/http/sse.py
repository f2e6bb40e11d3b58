"""Server-sent events over a connection that is watched, so that a disconnect is noticed."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import MappingProxyType
from typing import Any

import anyio
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from pydantic import BaseModel
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

PING_S = 15.0
_JSON = json.JSONEncoder(ensure_ascii=False)  # which `json.dumps` would make anew for each event
# How OpenAPI describes a route that can answer with an event stream.
STREAM_RESPONSE: MappingProxyType[int | str, dict[str, Any]] = MappingProxyType(
    {200: {"content": {"text/event-stream": {}}}}
)


def encode_event(name: str, body: BaseModel) -> bytes:
    """Encode one event.

    Args:
        name: the event's name.
        body: the event's data.
    Returns: the bytes of the lines `event:` and `data:`, the latter in JSON, and an empty line.
    """
    return format_sse_event(event=name, data_str=body.model_dump_json())


def encode_data(name: str, data: Any) -> bytes:
    """Encode one event whose data is plain JSON; as `encode_event`, for what comes often."""
    return format_sse_event(event=name, data_str=_JSON.encode(data))


class EventStream(Response):
    """Sends events as they come, and a comment now and then so that the connection stays open.

    Args:
        events: encoded events; the generator is closed when the caller closes the connection.
    """

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._events = events
        self._writing = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Answer one request."""
        try:
            await self._run(receive, send)
        except* ClientDisconnect:  # the caller reads too slowly
            pass

    async def _run(self, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        async with aclosing(self._events), anyio.create_task_group() as group:
            await send(start)
            group.start_soon(self._watch_caller, receive, group.cancel_scope)
            group.start_soon(self._ping, send)
            async for event in self._events:
                await self._write(send, event, more=True)
            await self._write(send, b"", more=False)
            group.cancel_scope.cancel()

    async def _write(self, send: Send, data: bytes, *, more: bool) -> None:
        async with self._writing:
            await send({"type": "http.response.body", "body": data, "more_body": more})

    async def _ping(self, send: Send) -> None:
        while True:
            await anyio.sleep(PING_S)
            await self._write(send, KEEPALIVE_COMMENT, more=True)

    async def _watch_caller(self, receive: Receive, scope: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        scope.cancel()
