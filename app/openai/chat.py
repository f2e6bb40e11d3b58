"""The route of chat completions."""

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from uuid import uuid4

from fastapi import APIRouter, Request

from app.http.auth import CallerDep, ScopedRoute, needs
from app.http.errors import explain
from app.http.exchange import exchange_of
from app.http.sse import STREAM_RESPONSE, EventStream
from app.openai.answers import ChatAnswer, encode_data
from app.openai.asking import Asking, most_tokens, question_fields
from app.openai.messages import read_messages
from app.openai.schemas import ChatCompletion, ChatRequest
from app.questions.accepted_question import AcceptedQuestion
from app.questions.routes import FIRST_PIECE_WAIT_S
from app.questions.schemas import QuestionBody
from app.services.services import ServicesDep
from common.scopes import Scope

router = APIRouter(prefix="/v1/chat", tags=["openai"], route_class=ScopedRoute)


@router.post(
    "/completions",
    response_model=ChatCompletion,
    responses=dict(STREAM_RESPONSE),
    dependencies=[needs(Scope.ASK)],
)
async def create_chat_completion(
    body: ChatRequest, request: Request, caller: CallerDep, services: ServicesDep
) -> ChatCompletion | EventStream:
    """Answer the last message about the file that the messages or the model's name choose.

    Earlier messages are earlier turns. Without a file the model answers on its own.
    """
    conversation = read_messages(body.messages, "messages")
    question = QuestionBody(
        question=conversation.question,
        max_tokens=most_tokens(services, body.max_completion_tokens or body.max_tokens),
        seed=body.seed,
        stop=[body.stop] if isinstance(body.stop, str) else body.stop or [],
        **question_fields(body),
    )
    asking = Asking(services, caller, exchange_of(request), "messages", request.is_disconnected)
    accepted = await asking.ask(conversation, question, body.model)
    answer = ChatAnswer(
        id=f"chatcmpl-{uuid4().hex}",
        created=int(time.time()),
        model=body.model,
        includes_usage=body.stream_options is not None and body.stream_options.include_usage,
        includes_evidence=body.evidence,
    )
    if not body.stream:
        return answer.whole(await accepted.whole_answer(request))
    await accepted.wait_for_first_piece(request, FIRST_PIECE_WAIT_S)
    return EventStream(_stream(answer, accepted))


async def _stream(answer: ChatAnswer, accepted: AcceptedQuestion) -> AsyncGenerator[bytes, None]:
    """Yield the pieces; an error comes as a piece of its own, and then there is no [DONE]."""
    try:
        async with aclosing(accepted.items()) as items:
            async for data in answer.stream(items):
                yield data
    except Exception as error:
        yield encode_data(explain(error).body())
