"""The route of questions."""

from fastapi import APIRouter, Request

from app.documents.schemas import parse_document_id
from app.http.auth import AuthenticatedRoute, TenantDep
from app.http.sse import STREAM_RESPONSE, EventStream
from app.questions.schemas import AnswerBody, QuestionBody
from app.questions.service import check_question, submit_question
from app.services.services import ServicesDep

router = APIRouter(tags=["questions"], route_class=AuthenticatedRoute)
FIRST_PIECE_WAIT_S = 10.0


@router.post(
    "/documents/{document_id}/ask", response_model=AnswerBody, responses=dict(STREAM_RESPONSE)
)
async def ask(
    document_id: str,
    body: QuestionBody,
    request: Request,
    tenant_id: TenantDep,
    services: ServicesDep,
) -> AnswerBody | EventStream:
    """Answer a question: as JSON, or with `stream` as pieces of text and then the same JSON.

    An error before the first piece has an HTTP status in both forms. A later error, or one after
    ten seconds of waiting for the first piece, is an `event: error`.
    """
    question = check_question(body, services.config)
    key = parse_document_id(document_id)
    accepted = await submit_question(services, tenant_id, key, question)
    if not body.stream:
        return await accepted.whole_answer(request)
    await accepted.wait_for_first_piece(request, FIRST_PIECE_WAIT_S)
    return EventStream(accepted.events())
