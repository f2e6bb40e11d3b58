"""The route of questions."""

from uuid import UUID

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool

from app.documents.schemas import parse_document_id
from app.http.auth import CallerDep, ScopedRoute, needs
from app.http.exchange import exchange_of
from app.http.sse import STREAM_RESPONSE, EventStream
from app.questions.accepted_question import AcceptedQuestion
from app.questions.answer_job import AnswerJob, AnswerParts
from app.questions.checked_question import CheckedQuestion, check_question
from app.questions.schemas import AnswerBody, AnswerItem, QuestionBody
from app.services.document_loader import check_ready
from app.services.question_queue import PendingAnswer
from app.services.services import Services, ServicesDep
from common.errors import NotReady
from common.scopes import Scope
from engine.serving.request import AnswerRequest
from storage.db.records import ApiKeyRecord

router = APIRouter(tags=["questions"], route_class=ScopedRoute)
FIRST_PIECE_WAIT_S = 10.0


@router.post(
    "/documents/{document_id}/ask",
    response_model=AnswerBody,
    responses=dict(STREAM_RESPONSE),
    dependencies=[needs(Scope.ASK)],
)
async def ask(
    document_id: str,
    body: QuestionBody,
    request: Request,
    caller: CallerDep,
    services: ServicesDep,
) -> AnswerBody | EventStream:
    """Answer a question: as JSON, or with `stream` as pieces of text and then the same JSON.

    What the model marks as thinking comes in events and a field of its own.

    An error before the first piece has an HTTP status in both forms. A later error, or one after
    ten seconds of waiting for the first piece, is an `event: error`.
    """
    question = check_question(body, services.config, services.engine.model.generation)
    key = parse_document_id(document_id)
    request_id = exchange_of(request).request_id
    accepted = await _submit(services, caller, key, question, request_id)
    if not body.stream:
        return await accepted.whole_answer(request)
    await accepted.wait_for_first_piece(request, FIRST_PIECE_WAIT_S)
    return EventStream(accepted.events())


async def _submit(
    services: Services,
    caller: ApiKeyRecord,
    document_id: UUID,
    question: CheckedQuestion,
    request_id: str,
) -> AcceptedQuestion:
    """Queue a question about a tenant's document.

    Raises: DocumentNotFound; DocumentNotReady, CacheRebuilding or DocumentFailed if the document
        cannot be asked about; TooManyQuestions, Busy, ShuttingDown.
    """
    documents, queue = services.storage.documents, services.question_queue
    document = await run_in_threadpool(documents.get, caller.tenant_id, document_id)
    try:
        check_ready(document)
    except NotReady as error:
        reading_times = services.storage.reading_times
        error.retry_after_s = await run_in_threadpool(
            reading_times.seconds_until_ready, document_id
        )
        raise
    parts = AnswerParts(
        services.engine.model,
        services.engine_loop,
        services.document_loader,
        services.storage.answers,
        services.background_writes,
    )

    def request(pending: PendingAnswer[AnswerItem]) -> AnswerRequest:
        return AnswerJob(parts, document, question, pending, caller.id, request_id).request()

    pending = queue.submit(document_id, caller.id, request)
    return AcceptedQuestion(queue, documents, document, pending)
