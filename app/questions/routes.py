"""The route of questions."""

import time
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID, uuid4

import structlog
from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool

from app.documents.schemas import parse_document_id
from app.http.auth import CallerDep, ScopedRoute, needs
from app.http.exchange import Exchange, exchange_of
from app.http.sse import STREAM_RESPONSE, EventStream
from app.questions.accepted_question import AcceptedQuestion
from app.questions.answer_job import AnswerJob, AnswerParts, log_answer
from app.questions.answer_store import COMPUTED, HEADER, STORED, AnswerStore
from app.questions.checked_question import CheckedQuestion, check_question
from app.questions.conversation import (
    EarlierTurns,
    Keeping,
    check_same_document,
    earlier_turns,
    parse_answer_id,
)
from app.questions.schemas import AnswerBody, AnswerItem, QuestionBody
from app.services.document_loader import ready_document
from app.services.question_queue import PendingAnswer, finished_answer
from app.services.services import Services, ServicesDep
from common.scopes import Scope
from common.spans import Span
from engine.decode.answer import TextDelta
from engine.model.prompt import Turn
from engine.serving.request import AnswerRequest
from storage.db.records import ApiKeyRecord, DocumentRecord
from storage.quotas.quotas import QuestionGrant
from storage.quotas.windows import WindowSpent

router = APIRouter(tags=["questions"], route_class=ScopedRoute)
FIRST_PIECE_WAIT_S = 10.0
PREVIOUS = "previous_answer_id"
SETTLED_S = 60.0  # within which a question that timed out has been settled


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
    key = parse_document_id(document_id)
    checked = check_question(body, services.config, services.engine.model.generation)
    question = await _in_conversation(services, caller.tenant_id, key, body, checked)
    accepted = await submit_question(services, caller, key, question, exchange_of(request))
    if not body.stream:
        return await accepted.whole_answer(request)
    await accepted.wait_for_first_piece(request, FIRST_PIECE_WAIT_S)
    return EventStream(accepted.events())


async def _in_conversation(
    services: Services,
    tenant_id: UUID,
    document_id: UUID,
    body: QuestionBody,
    question: CheckedQuestion,
) -> CheckedQuestion:
    """Return the question with the turns before it.

    Raises: AnswerNotFound; InvalidInput if they are about another document.
    """
    previous_id = None
    if body.previous_answer_id is not None:
        previous_id = parse_answer_id(body.previous_answer_id, PREVIOUS)
    sent = [Turn(turn.question, turn.answer) for turn in body.turns]
    earlier = EarlierTurns(tuple(sent))
    if previous_id is not None:
        earlier = await run_in_threadpool(
            earlier_turns, services.storage.turns, tenant_id, previous_id, sent, PREVIOUS
        )
    check_same_document(earlier, document_id, PREVIOUS)
    return replace(
        question,
        turns=earlier.turns,
        may_drop_turns=body.drop_oldest_turns,
        keeping=Keeping(uuid4(), previous_id) if body.keep else None,
        may_go_on=body.keep or bool(earlier.turns),
    )


async def submit_question(
    services: Services,
    caller: ApiKeyRecord,
    document_id: UUID | None,
    question: CheckedQuestion,
    exchange: Exchange,
) -> AcceptedQuestion:
    """Queue a question about a document of the caller's tenant, or for the model alone.

    Raises: DocumentNotFound; DocumentNotReady, CacheRebuilding or DocumentFailed if the document
        cannot be asked about; RateLimited; TooManyQuestions, Busy, ShuttingDown.
    """
    queue = services.question_queue
    store = _answer_store(services)
    try:
        admitted = await run_in_threadpool(_admit, services, store, caller, document_id, question)
    except WindowSpent as error:
        exchange.note_window(error.state)
        raise
    document = admitted.document
    if document is not None:
        stored = admitted.stored
        exchange.add_header(HEADER, COMPUTED if stored is None else STORED)
        if stored is not None:
            log_answer(_log_of(exchange, document), stored, is_stored=True)
            services.on_span(_stored_span(exchange, document, stored))
            pending = finished_answer(document_id, caller.owner, _items_of(stored))
            return AcceptedQuestion(queue, document, pending)
        question = replace(question, answer_key=admitted.answer_key)
    grant = admitted.grant
    if grant is not None:
        exchange.at_end(
            partial(services.background_writes.add, partial(services.storage.quotas.settle, grant))
        )
        exchange.note_window(grant.state)
    parts = AnswerParts(
        services.engine.model,
        services.engine_loop,
        services.document_loader,
        services.storage.answers,
        services.background_writes,
        services.storage.turns,
        store,
        services.no_document,
        services.on_span,
    )

    def request(pending: PendingAnswer[AnswerItem]) -> AnswerRequest:
        job = AnswerJob(
            parts,
            caller.tenant_id,
            document,
            question,
            pending,
            caller.owner,
            exchange.request_id,
            grant,
            exchange.trace_parent,
        )
        return job.request()

    pending = queue.submit(document_id, caller.owner, request)
    if document is not None:
        services.deleted_documents.watch(document)
    return AcceptedQuestion(queue, document, pending)


def _answer_store(services: Services) -> AnswerStore:
    storage = services.storage
    return AnswerStore(
        storage.stored_answers,
        services.engine_fingerprint,
        services.document_loader.weights_check,
    )


@dataclass(frozen=True)
class _Admitted:
    """What is known of a question before it is queued.

    Attributes:
        document: what it is about; None for the model alone.
        answer_key: names the answer.
        stored: that answer, if it is stored; then nothing more is to be done.
        grant: what the question may use; None where the answer is stored.
    """

    document: DocumentRecord | None = None
    answer_key: str = ""
    stored: AnswerBody | None = None
    grant: QuestionGrant | None = None


def _admit(
    services: Services,
    store: AnswerStore,
    caller: ApiKeyRecord,
    document_id: UUID | None,
    question: CheckedQuestion,
) -> _Admitted:
    """Look up what a question is about and whether its answer is stored, or take what it may use.

    All in one go, as each turn of a thread costs a question some of its first token's time.

    Raises: as `ready_document` and `_find_stored`; WindowSpent.
    """
    found = _Admitted()
    if document_id is not None:
        document = ready_document(services.storage, caller.tenant_id, document_id)
        key = store.key(document, question)
        stored = _find_stored(services, store, document, question, key)
        found = _Admitted(document, key, stored)
        if stored is not None:
            return found
    thinks = services.engine.model.prompt.thinking is not None
    num_tokens = question.most_tokens(thinks=thinks)
    timeout_s = services.config.question_timeout_s + SETTLED_S
    grant = services.storage.quotas.take_question(caller, num_tokens, timeout_s)
    return replace(found, grant=grant)


def _find_stored(
    services: Services,
    store: AnswerStore,
    document: DocumentRecord,
    question: CheckedQuestion,
    key: str,
) -> AnswerBody | None:
    """Return the stored answer to a question, kept as a turn if that was asked for.

    Raises: AnswerNotFound if the turn before is not there any more; ModelChanged.
    """
    stored, keeping = store.find(document, key), question.keeping
    if stored is None or keeping is None:
        return stored
    body = stored.model_copy(update={"answer_id": str(keeping.turn_id)})
    services.storage.turns.add(
        document.tenant_id,
        document.id,
        question.text,
        stored.answer,
        keeping.previous_id,
        turn_id=keeping.turn_id,
        body=body.model_dump_json(),
    )
    return body


def _items_of(answer: AnswerBody) -> list[AnswerItem]:
    """Return what the work on a question would have yielded."""
    items: list[AnswerItem] = []
    if answer.thinking is not None:
        items.append(TextDelta(answer.thinking.text, is_thinking=True))
    return [*items, TextDelta(answer.answer), answer]


def _log_of(
    exchange: Exchange, document: DocumentRecord
) -> structlog.typing.FilteringBoundLogger:  # fmt: skip
    log: structlog.typing.FilteringBoundLogger = structlog.get_logger("lectern.questions")
    return log.bind(request_id=exchange.request_id, document_id=str(document.id))


def _stored_span(exchange: Exchange, document: DocumentRecord, answer: AnswerBody) -> Span:
    """What there is to tell about a question whose answer was stored."""
    spent_s = answer.timings_ms["total"] / 1000
    ids = {"request_id": exchange.request_id, "document_id": str(document.id)}
    return Span(
        "question",
        time.time() - spent_s,
        spent_s,
        {**ids, "is_stored": True},
        parent=exchange.trace_parent,
    )
