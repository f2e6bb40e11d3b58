"""Asking: one question about one ready document."""

import unicodedata
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, field_validator

from app.config import ServerConfig
from app.documents.loader import check_ready
from app.documents.routes import parse_id
from app.http.auth import KeyFirst, TenantDep
from app.http.sse import EventStream
from app.questions.answering import AskedQuestion, answering
from app.questions.service import Turn, frames, whole_answer
from app.schema import AnswerJson
from app.services.services import ServicesDep
from common.errors import EmptyQuestion, InvalidInput, QuestionTooLong
from engine.decode.sampling import Sampling
from engine.document.budget import parse_budget

router = APIRouter(tags=["questions"], route_class=KeyFirst)
DEFAULT_TOKENS = 128
COLDEST = 1e-3
FIRST_WAIT_S = 10.0
STREAMED: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}

Share = Annotated[float, Field(gt=0, le=1, strict=True, allow_inf_nan=False)]


class Question(BaseModel):
    """What is asked, how much of the cache may be read for it, and how tokens are drawn."""

    model_config = ConfigDict(extra="forbid")

    # Bounds for the schema alone: breaking them has error codes of its own.
    question: str = Field(json_schema_extra={"minLength": 1, "pattern": "\\S"})
    budget: Literal["fast", "balanced", "exact"] | Share = "balanced"
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000, strict=True)
    temperature: float = Field(default=0.0, ge=0, le=2, strict=True, allow_inf_nan=False)
    top_p: float = Field(default=1.0, gt=0, le=1, strict=True, allow_inf_nan=False)
    seed: int | None = Field(default=None, ge=0, lt=2**63, strict=True)
    stream: bool = Field(default=False, strict=True)

    @field_validator("question")
    @classmethod
    def _whole_characters(cls, text: str) -> str:
        if any(unicodedata.category(char) == "Cs" for char in text):
            raise ValueError("holds half a surrogate pair, which is no character")
        return text.replace("\x00", "")


@router.post("/documents/{document_id}/ask", response_model=AnswerJson, responses=STREAMED)
async def ask(
    document_id: str,
    question: Question,
    request: Request,
    tenant: TenantDep,
    services: ServicesDep,
) -> Response:
    """Answer a question: as JSON, or with `stream` as pieces and then the same JSON.

    An error before the first piece is a status in both forms; one after it, or after
    ten seconds of waiting, is an `event: error`.
    """
    asked = check_question(question, services.config)
    key = parse_id(document_id)
    document = await run_in_threadpool(services.storage.documents.get, tenant, key)
    check_ready(document)
    ticket = services.questions.submit(key, answering(services, document, asked))
    turn = Turn(services, tenant, key, ticket)
    if not question.stream:
        return JSONResponse(await whole_answer(turn, request))
    await turn.settle(request, FIRST_WAIT_S)
    return EventStream(frames(turn))


def check_question(question: Question, limits: ServerConfig) -> AskedQuestion:
    """Hold a question against the server's bounds.

    Raises: EmptyQuestion, QuestionTooLong, InvalidInput for too many tokens asked for.
    """
    text = question.question.strip()
    if not text:
        raise EmptyQuestion("Ask a question: `question` holds no text.", param="question")
    if len(text) > limits.max_question_chars:
        raise QuestionTooLong(
            f"The question has {len(text)} characters; at most {limits.max_question_chars} fit.",
            param="question",
        )
    max_tokens = question.max_tokens or min(DEFAULT_TOKENS, limits.max_answer_tokens)
    if max_tokens > limits.max_answer_tokens:
        raise InvalidInput(
            f"max_tokens: at most {limits.max_answer_tokens} on this server.", param="max_tokens"
        )
    sampling = Sampling(
        max_tokens=max_tokens,
        # So cold that logits would overflow is the same as greedy.
        temperature=question.temperature if question.temperature >= COLDEST else 0.0,
        top_p=question.top_p,
        seed=question.seed,
    )
    return AskedQuestion(text, parse_budget(question.budget), sampling)
