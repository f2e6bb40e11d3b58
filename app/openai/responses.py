"""The routes of responses, whose conversations can be gone on with by their id."""

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from uuid import UUID, uuid4

from fastapi import APIRouter, Request

from app.http.auth import CallerDep, ScopedRoute, needs
from app.http.errors import explain
from app.http.exchange import exchange_of
from app.http.sse import STREAM_RESPONSE, EventStream
from app.openai.answers import ResponseAnswer
from app.openai.asking import PREVIOUS, Asking, most_tokens, question_fields
from app.openai.messages import read_messages
from app.openai.schemas import Message, ResponseBody, ResponseError, ResponseRequest
from app.questions.accepted_question import AcceptedQuestion
from app.questions.conversation import Keeping, parse_answer_id
from app.questions.routes import FIRST_PIECE_WAIT_S
from app.questions.schemas import QuestionBody
from app.services.services import ServicesDep
from common.scopes import Scope

router = APIRouter(prefix="/v1/responses", tags=["openai"], route_class=ScopedRoute)
ID_PREFIX = "resp_"


@router.post(
    "",
    response_model=ResponseBody,
    responses=dict(STREAM_RESPONSE),
    dependencies=[needs(Scope.ASK)],
)
async def create_response(
    body: ResponseRequest, request: Request, caller: CallerDep, services: ServicesDep
) -> ResponseBody | EventStream:
    """Answer a question, as `create_chat_completion`; its id continues the conversation.

    With `store` false nothing of it is stored, and its id continues nothing.
    """
    messages = (
        [Message(role="user", content=body.input)] if isinstance(body.input, str) else body.input
    )
    conversation = read_messages(messages, "input", body.instructions or "")
    answer_id, previous_id = uuid4(), _previous_id(body)
    keeping = None if body.store is False else Keeping(answer_id, previous_id)
    question = QuestionBody(
        question=conversation.question,
        max_tokens=most_tokens(services, body.max_output_tokens),
        **question_fields(body) | _own_fields(body),
    )
    asking = Asking(services, caller, exchange_of(request), "input", request.is_disconnected)
    accepted = await asking.ask(conversation, question, body.model, previous_id, keeping)
    answer = ResponseAnswer(
        id=f"{ID_PREFIX}{answer_id.hex}",
        message_id=f"msg_{answer_id.hex}",
        created=int(time.time()),
        request=body,
        filename="" if accepted.document is None else accepted.document.filename,
    )
    if not body.stream:
        return answer.whole(await accepted.whole_answer(request))
    await accepted.wait_for_first_piece(request, FIRST_PIECE_WAIT_S)
    return EventStream(_stream(answer, accepted))


async def _stream(
    answer: ResponseAnswer, accepted: AcceptedQuestion
) -> AsyncGenerator[bytes, None]:
    """Yield the events; after an error the last one says that the response failed."""
    try:
        async with aclosing(accepted.items()) as items:
            async for data in answer.stream(items):
                yield data
    except Exception as error:
        failure = explain(error)
        yield answer.failed(ResponseError(code=failure.code, message=failure.message))


def _own_fields(body: ResponseRequest) -> dict[str, bool]:
    """Return the fields of a question that responses alone name by other parameters."""
    return {
        "reuse_answer": body.reuse_answer and body.store is not False,
        "drop_oldest_turns": body.drop_oldest_turns or body.truncation == "auto",
    }


def _previous_id(body: ResponseRequest) -> UUID | None:
    """Return the turn that the request goes on from. Raises: AnswerNotFound."""
    if body.previous_response_id is None:
        return None
    return parse_answer_id(body.previous_response_id.removeprefix(ID_PREFIX), PREVIOUS)
