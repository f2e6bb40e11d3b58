"""Progress events of a document, from now until it is ready or has failed."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from uuid import UUID

from fastapi.concurrency import run_in_threadpool

from app.documents.schemas import progress_event
from app.http.errors import explain
from app.http.sse import encode_event
from app.services.question_queue import QuestionQueue
from app.services.watchers import WatcherThreads
from common.errors import (
    DocumentDeleted,
    DocumentNotFound,
    LecternError,
    ShuttingDown,
    Transient,
)
from storage.notify.base import DocumentState
from storage.storage import Storage

RETRY_S = 1.0


@dataclass(frozen=True)
class EventSource:
    """What the events of documents are made of."""

    storage: Storage
    watchers: WatcherThreads
    question_queue: QuestionQueue


async def follow_document(
    source: EventSource, tenant_id: UUID, document_id: UUID
) -> AsyncGenerator[bytes, None]:
    """Yield the encoded events of a document.

    Returns: `event: progress` whenever the state has changed, and at last `event: error` if the
        document is deleted or the server stops.
    """
    caller_left = threading.Event()

    def is_stopped() -> bool:
        return caller_left.is_set() or source.question_queue.is_draining

    try:
        async with aclosing(_states(source, tenant_id, document_id, is_stopped)) as states:
            async for state in states:
                yield encode_event("progress", progress_event(state))
    except LecternError as error:
        yield encode_event("error", explain(error).body())
    finally:
        caller_left.set()


async def _states(
    source: EventSource, tenant_id: UUID, document_id: UUID, is_stopped: Callable[[], bool]
) -> AsyncGenerator[DocumentState, None]:
    """Yield the states of a document, and go on when the database was unavailable for a while.

    Raises: DocumentDeleted, ShuttingDown.
    """
    previous: DocumentState | None = None
    while previous is None or not previous.status.is_final:
        try:
            states = source.storage.watch(document_id, is_stopped)
            while (state := await source.watchers.next_state(states)) is not None:
                if state != previous:
                    previous = state
                    yield state
            await _raise_reason(source, tenant_id, document_id)
        except Transient as error:
            if isinstance(error, ShuttingDown):
                raise
            await asyncio.sleep(RETRY_S)


async def _raise_reason(source: EventSource, tenant_id: UUID, document_id: UUID) -> None:
    """Raise the reason for which the states ended; return if the document is ready or failed.

    Raises: DocumentDeleted, ShuttingDown.
    """
    try:
        await run_in_threadpool(source.storage.documents.get, tenant_id, document_id)
    except DocumentNotFound as error:
        raise DocumentDeleted("The document was deleted.") from error
    if source.question_queue.is_draining:
        raise ShuttingDown("The server is stopping; follow the document again in a moment.")
