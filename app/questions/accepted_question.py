"""A question that is in the queue or being answered: watched, waited for and streamed."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from app.http.errors import explain
from app.http.sse import encode_event
from app.questions.schemas import AnswerBody, AnswerItem, PieceEvent
from app.services.document_loader import DELETED
from app.services.question_queue import PendingAnswer, QuestionQueue
from common.errors import CallerGone, DocumentDeleted, LecternError
from engine.decode.answer import TextDelta
from storage.db.records import DocumentRecord
from storage.documents import Documents

WATCH_S = 1.0


@dataclass(frozen=True)
class AcceptedQuestion:
    """A question in the queue or being answered.

    While its caller waits, the connection and the document are watched; the work stops when the
    connection is closed or the document is deleted.
    """

    question_queue: QuestionQueue
    documents: Documents
    document: DocumentRecord | None
    pending: PendingAnswer[AnswerItem]

    async def whole_answer(self, request: Request) -> AnswerBody:
        """Wait for the whole answer.

        Raises: the error that stopped the work; ClientDisconnect if the caller has gone.
        """
        async with self._watched(request):
            async for item in self.pending:
                if isinstance(item, AnswerBody):
                    return item
        raise ClientDisconnect

    async def wait_for_first_piece(self, request: Request, wait_s: float) -> None:
        """Wait for the first piece of text.

        Args:
            wait_s: longest wait in seconds.
        Raises: the error that stopped the work meanwhile; ClientDisconnect if the caller has gone.
        """
        async with self._watched(request):
            await self.pending.wait_for_first_item(wait_s)

    async def items(self) -> AsyncGenerator[AnswerItem, None]:
        """Yield text as it comes, then the whole answer.

        The work stops when the generator is closed.

        Raises: the error that stopped the work.
        """
        watcher = asyncio.create_task(self._watch_document())
        try:
            async for item in self.pending:
                yield item
        finally:
            self.cancel()
            watcher.cancel()

    async def events(self) -> AsyncGenerator[bytes, None]:
        """Yield the encoded events: `thinking` if the model marks any, `piece`, then `answer`.

        If something goes wrong, `error` comes last.

        The work stops when the generator is closed.
        """
        try:
            async with aclosing(self.items()) as items:
                async for item in items:
                    yield _encode_item(item)
        except Exception as error:
            yield encode_event("error", explain(error).body())

    def cancel(self, error: LecternError | None = None) -> None:
        """Stop the work, which makes room for another question.

        Args:
            error: what a caller that still waits gets.
        """
        self.question_queue.cancel(self.pending, error)

    @asynccontextmanager
    async def _watched(self, request: Request) -> AsyncIterator[None]:
        """Watch caller and document while the block runs; an error in the block stops the work."""
        watchers = (
            asyncio.create_task(self._watch_caller(request)),
            asyncio.create_task(self._watch_document()),
        )
        try:
            yield
        except CallerGone as error:
            raise ClientDisconnect from error
        except BaseException:
            self.cancel()
            raise
        finally:
            await _stop_tasks(*watchers)

    async def _watch_caller(self, request: Request) -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        self.cancel()

    async def _watch_document(self) -> None:
        """Stop the work when the document is deleted, which another process may do."""
        if self.document is None:
            return
        is_deleted = False
        while not is_deleted:
            await asyncio.sleep(WATCH_S)
            with suppress(LecternError):  # an answer that has begun does not need the database
                is_deleted = await run_in_threadpool(self.documents.is_deleted, self.document)
        self.cancel(DocumentDeleted(DELETED))


async def _stop_tasks(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)


def _encode_item(item: AnswerItem) -> bytes:
    if isinstance(item, TextDelta):
        name = "thinking" if item.is_thinking else "piece"
        return encode_event(name, PieceEvent(text=item.text))
    return encode_event("answer", item)
