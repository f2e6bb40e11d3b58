"""A question that is in the queue or being answered: watched, waited for and streamed."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass

from fastapi import Request
from starlette.requests import ClientDisconnect

from app.http.errors import explain
from app.http.sse import encode_data, encode_event
from app.questions.schemas import AnswerBody, AnswerItem
from app.services.question_queue import PendingAnswer, QuestionQueue
from common.errors import CallerGone, LecternError
from engine.decode.answer import TextDelta
from storage.db.records import DocumentRecord


@dataclass(frozen=True)
class AcceptedQuestion:
    """A question in the queue or being answered.

    While its caller waits, the connection is watched; the work stops when it is closed.
    """

    question_queue: QuestionQueue
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
        try:
            async for item in self.pending:
                yield item
        finally:
            self.cancel()

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
        """Watch the caller while the block runs; an error in the block stops the work."""
        watcher = asyncio.create_task(self._watch_caller(request))
        try:
            yield
        except CallerGone as error:
            raise ClientDisconnect from error
        except BaseException:
            self.cancel()
            raise
        finally:
            watcher.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(watcher, return_exceptions=True)

    async def _watch_caller(self, request: Request) -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        self.cancel()


def _encode_item(item: AnswerItem) -> bytes:
    if isinstance(item, TextDelta):
        name = "thinking" if item.is_thinking else "piece"
        return encode_data(name, {"text": item.text})
    return encode_event("answer", item)
