"""The question service, on the event loop: it checks, queues, watches and streams questions."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from uuid import UUID

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from app.config import ServerConfig
from app.documents.loader import DELETED, check_ready
from app.http.errors import explain
from app.http.sse import encode_event
from app.questions.answer_job import AnswerItem, AnswerJob, CheckedQuestion
from app.questions.schemas import AnswerBody, PieceEvent, QuestionBody
from app.services.question_queue import PendingAnswer
from app.services.services import Services
from common.errors import (
    CallerGone,
    DocumentDeleted,
    DocumentNotFound,
    EmptyQuestion,
    InvalidInput,
    LecternError,
    QuestionTooLong,
)
from engine.decode.running_answer import TextDelta
from engine.decode.sampling import Sampling
from engine.document.budget import parse_budget

DEFAULT_MAX_TOKENS = 128
LOWEST_TEMPERATURE = 1e-3
WATCH_S = 1.0


def check_question(body: QuestionBody, limits: ServerConfig) -> CheckedQuestion:
    """Check a question against the server's limits.

    Raises: EmptyQuestion, QuestionTooLong; InvalidInput if it asks for too many tokens.
    """
    text = body.question.strip()
    if not text:
        raise EmptyQuestion("Ask a question: `question` holds no text.", param="question")
    if len(text) > limits.max_question_chars:
        raise QuestionTooLong(
            f"The question has {len(text)} characters; at most {limits.max_question_chars} fit.",
            param="question",
        )
    max_tokens = body.max_tokens or min(DEFAULT_MAX_TOKENS, limits.max_answer_tokens)
    if max_tokens > limits.max_answer_tokens:
        raise InvalidInput(
            f"max_tokens: at most {limits.max_answer_tokens} on this server.", param="max_tokens"
        )
    sampling = Sampling(
        max_tokens=max_tokens,
        # Logits divided by a lower temperature could overflow; the result would be greedy anyway.
        temperature=body.temperature if body.temperature >= LOWEST_TEMPERATURE else 0.0,
        top_p=body.top_p,
        seed=body.seed,
    )
    return CheckedQuestion(text, parse_budget(body.budget), sampling)


async def submit_question(
    services: Services, tenant_id: UUID, document_id: UUID, question: CheckedQuestion
) -> "AcceptedQuestion":
    """Queue a question about a tenant's document.

    Raises: DocumentNotFound; DocumentNotReady, CacheRebuilding or DocumentFailed if the document
        cannot be asked about; TooManyQuestions, ShuttingDown.
    """
    document = await run_in_threadpool(services.storage.documents.get, tenant_id, document_id)
    check_ready(document)
    job = AnswerJob(services, document, question)
    pending = services.question_queue.submit(document_id, job.run)
    return AcceptedQuestion(services, tenant_id, document_id, pending)


@dataclass(frozen=True)
class AcceptedQuestion:
    """A question in the queue or being answered.

    While its caller waits, the connection and the document are watched; the work stops when the
    connection is closed or the document is deleted.
    """

    services: Services
    tenant_id: UUID
    document_id: UUID
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

    async def events(self) -> AsyncGenerator[bytes, None]:
        """Yield the encoded events: `piece`, then `answer`; or `error` if something goes wrong.

        The work stops when the generator is closed.
        """
        watcher = asyncio.create_task(self._watch_document())
        try:
            async for item in self.pending:
                yield _encode_item(item)
        except Exception as error:
            yield encode_event("error", explain(error).body())
        finally:
            self.cancel()
            watcher.cancel()

    def cancel(self, error: LecternError | None = None) -> None:
        """Stop the work, which makes room for another question.

        Args:
            error: what a caller that still waits gets.
        """
        self.services.question_queue.cancel(self.pending, error)

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
        documents = self.services.storage.documents
        while True:
            await asyncio.sleep(WATCH_S)
            try:
                await run_in_threadpool(documents.get, self.tenant_id, self.document_id)
            except DocumentNotFound:
                self.cancel(DocumentDeleted(DELETED))
                return
            except LecternError:  # an answer that has begun does not need the database
                continue


async def _stop_tasks(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)


def _encode_item(item: AnswerItem) -> bytes:
    if isinstance(item, TextDelta):
        return encode_event("piece", PieceEvent(text=item.text))
    return encode_event("answer", item)
