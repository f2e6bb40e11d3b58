"""Following a document while it is read: a frame for every change until it is ready or failed."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any
from uuid import UUID

from fastapi.concurrency import run_in_threadpool

from app.http.errors import explain
from app.http.sse import encode
from app.services.services import Services
from common.errors import (
    DocumentDeleted,
    DocumentNotFound,
    LecternError,
    ShuttingDown,
    Transient,
)

AGAIN_S = 1.0
FINAL = frozenset({"ready", "failed"})
Event = dict[str, Any]


async def follow(
    services: Services, tenant: UUID, document_id: UUID
) -> AsyncGenerator[bytes, None]:
    """Yield `event: progress` frames; `event: error` if the document goes or the server stops."""
    left = threading.Event()

    def stopped() -> bool:
        return left.is_set() or services.questions.draining

    try:
        async with aclosing(_changes(services, tenant, document_id, stopped)) as changes:
            async for event in changes:
                yield encode("progress", event)
    except LecternError as error:
        yield encode("error", explain(error).body())
    finally:
        left.set()


async def _changes(
    services: Services, tenant: UUID, document_id: UUID, stopped: Callable[[], bool]
) -> AsyncGenerator[Event, None]:
    last: Event | None = None
    while last is None or last["status"] not in FINAL:
        try:
            events = services.storage.bell.subscribe(document_id, stopped)
            while (event := await services.watchers.next(events)) is not None:
                if event != last:
                    last = event
                    yield event
            await _look_why(services, tenant, document_id)
        except Transient as error:
            if isinstance(error, ShuttingDown):
                raise
            await asyncio.sleep(AGAIN_S)  # the database is away: subscribe again


async def _look_why(services: Services, tenant: UUID, document_id: UUID) -> None:
    """Raise what ended the events early: the server stops, or the document is gone."""
    try:
        await run_in_threadpool(services.storage.documents.get, tenant, document_id)
    except DocumentNotFound as error:
        raise DocumentDeleted("The document was deleted.") from error
    if services.questions.draining:
        raise ShuttingDown("The server is stopping; follow the document again in a moment.")
