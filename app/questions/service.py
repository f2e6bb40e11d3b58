"""One question's turn on the event loop: its caller and its document are watched meanwhile."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from app.http.errors import explain
from app.http.sse import encode
from app.questions.answering import AnswerBody
from app.services.question_queue import Ticket
from app.services.services import Services
from common.errors import Cancelled, DocumentDeleted, DocumentNotFound, LecternError
from engine.decode.running_answer import TextDelta

LOOK_S = 1.0
DELETED = "The document was deleted while it was being asked about."


@dataclass(frozen=True)
class Turn:
    """An accepted question, and whose and about what it is."""

    services: Services
    tenant: UUID
    document_id: UUID
    ticket: Ticket[TextDelta | AnswerBody]

    async def settle(self, request: Request, wait_s: float) -> None:
        """Wait for the first piece; an error until then is raised and so becomes a status."""
        async with self._watched(request):
            await self.ticket.settle(wait_s)

    def cancel(self, error: LecternError | None = None) -> None:
        """Stop the work and free the slot."""
        self.services.questions.cancel(self.ticket, error)

    @asynccontextmanager
    async def _watched(self, request: Request) -> AsyncIterator[None]:
        """Stop the work if the caller or the document goes, or if the body fails."""
        watchers = [
            asyncio.create_task(self._watch_caller(request)),
            asyncio.create_task(self.watch_document()),
        ]
        try:
            yield
        except Cancelled as error:
            raise ClientDisconnect from error
        except BaseException:
            self.cancel()
            raise
        finally:
            await stop(*watchers)

    async def _watch_caller(self, request: Request) -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        self.cancel()

    async def watch_document(self) -> None:
        """Look whether the document is still there: another process may have deleted it."""
        documents = self.services.storage.documents
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await run_in_threadpool(documents.get, self.tenant, self.document_id)
            except DocumentNotFound:
                self.cancel(DocumentDeleted(DELETED))
                return
            except LecternError:  # the answer in progress needs no database
                continue


async def whole_answer(turn: Turn, request: Request) -> dict[str, Any]:
    """Wait for the whole answer.

    Raises: what stopped it; ClientDisconnect if nobody waits any more.
    """
    async with turn._watched(request):
        async for item in turn.ticket:
            if isinstance(item, AnswerBody):
                return item.json
    raise ClientDisconnect


async def frames(turn: Turn) -> AsyncGenerator[bytes, None]:
    """Yield pieces, then the answer, or an error; being closed stops the work."""
    watcher = asyncio.create_task(turn.watch_document())
    try:
        async for item in turn.ticket:
            yield _frame(item)
    except Exception as error:
        yield encode("error", explain(error).body())
    finally:
        turn.cancel()
        watcher.cancel()


async def stop(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)


def _frame(item: TextDelta | AnswerBody) -> bytes:
    if isinstance(item, TextDelta):
        return encode("piece", {"text": item.text})
    return encode("answer", item.json)
