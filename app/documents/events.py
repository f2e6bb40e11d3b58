"""Progress events of a document, from now until it is ready or has failed."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from uuid import UUID

from fastapi.concurrency import run_in_threadpool

from app.documents.schemas import progress_event
from app.http.errors import explain
from app.http.sse import encode_event
from app.services.services import Services
from common.errors import (
    DocumentDeleted,
    DocumentNotFound,
    LecternError,
    ShuttingDown,
    Transient,
)
from storage.notify.base import DocumentState

RETRY_S = 1.0


async def follow_document(
    services: Services, tenant_id: UUID, document_id: UUID
) -> AsyncGenerator[bytes, None]:
    """Yield the encoded events of a document.

    Returns: `event: progress` whenever the state has changed, and at last `event: error` if the
        document is deleted or the server stops.
    """
    caller_left = threading.Event()

    def is_stopped() -> bool:
        return caller_left.is_set() or services.question_queue.is_draining

    try:
        async with aclosing(_states(services, tenant_id, document_id, is_stopped)) as states:
            async for state in states:
                yield encode_event("progress", progress_event(state))
    except LecternError as error:
        yield encode_event("error", explain(error).body())
    finally:
        caller_left.set()


async def _states(
    services: Services, tenant_id: UUID, document_id: UUID, is_stopped: Callable[[], bool]
) -> AsyncGenerator[DocumentState, None]:
    """Yield the states of a document, and go on when the database was unavailable for a while.

    Raises: DocumentDeleted, ShuttingDown.
    """
    previous: DocumentState | None = None
    while previous is None or not previous.status.is_final:
        try:
            states = services.storage.notifier.watch(document_id, is_stopped)
            while (state := await services.watchers.next_state(states)) is not None:
                if state != previous:
                    previous = state
                    yield state
            await _raise_reason(services, tenant_id, document_id)
        except Transient as error:
            if isinstance(error, ShuttingDown):
                raise
            await asyncio.sleep(RETRY_S)


async def _raise_reason(services: Services, tenant_id: UUID, document_id: UUID) -> None:
    """Raise the reason for which the states ended; return if the document is ready or failed.

    Raises: DocumentDeleted, ShuttingDown.
    """
    try:
        await run_in_threadpool(services.storage.documents.get, tenant_id, document_id)
    except DocumentNotFound as error:
        raise DocumentDeleted("The document was deleted.") from error
    if services.question_queue.is_draining:
        raise ShuttingDown("The server is stopping; follow the document again in a moment.")
