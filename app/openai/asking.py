"""Ask what the messages of a chat ask, about the document that they choose."""

from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from fastapi.concurrency import run_in_threadpool

from app.http.exchange import Exchange
from app.openai.document_choice import find_document
from app.openai.inline_files import IsGone, read_inline_file
from app.openai.messages import Conversation
from app.openai.schemas import AskParameters
from app.questions.accepted_question import AcceptedQuestion
from app.questions.checked_question import check_question
from app.questions.conversation import Keeping, check_same_document, earlier_turns
from app.questions.routes import submit_question
from app.questions.schemas import QuestionBody
from app.services.services import Services
from common.errors import DocumentNotFound
from storage.db.records import ApiKeyRecord

PREVIOUS = "previous_response_id"


def question_fields(body: AskParameters) -> dict[str, Any]:
    """Return the fields of a question that chat completions and responses name alike."""
    return {
        "budget": body.budget,
        "tolerance": body.tolerance,
        "temperature": body.temperature,
        "top_p": body.top_p,
        "max_thinking_tokens": body.max_thinking_tokens,
        "ignore_eos": body.ignore_eos,
        "mode": body.mode,
        "stop_repetition": body.stop_repetition,
        "reuse_answer": body.reuse_answer,
        "drop_oldest_turns": body.drop_oldest_turns,
        "stream": body.stream,
    }


def most_tokens(services: Services, asked: int | None) -> int | None:
    """Return how long an answer may be: no longer than the server's answers are.

    Chat clients ask for fixed numbers. An answer that is cut says so by its `finish_reason`.
    """
    return None if asked is None else min(asked, services.config.max_answer_tokens)


@dataclass(frozen=True)
class Asking:
    """Asks for one caller.

    Attributes:
        param: name of the parameter that holds the messages.
        is_gone: whether the caller has closed the connection.
    """

    services: Services
    caller: ApiKeyRecord
    exchange: Exchange
    param: str
    is_gone: IsGone

    async def ask(
        self,
        conversation: Conversation,
        question: QuestionBody,
        model: str,
        previous_id: UUID | None = None,
        keeping: Keeping | None = None,
    ) -> AcceptedQuestion:
        """Queue the question of a conversation.

        Args:
            question: with its limits and its sampling.
            model: as the caller names it, which may choose the document.
            previous_id: the stored turn that the conversation goes on from.
            keeping: as which turn the answer is kept; None for not at all.
        Raises: what `find_document`, `read_inline_file` and `submit_question` raise;
            AnswerNotFound, InvalidInput.
        """
        services, tenant_id = self.services, self.caller.tenant_id
        earlier = await run_in_threadpool(
            earlier_turns,
            services.storage.turns,
            tenant_id,
            previous_id,
            conversation.turns,
            PREVIOUS,
        )
        file = conversation.file
        try:
            document = await find_document(
                services, tenant_id, None if file is None else file.file_id, model
            )
        except DocumentNotFound as error:
            error.param = self.param
            raise
        if file is not None and file.file_id is None:
            document = await read_inline_file(services, self.caller, file, self.param, self.is_gone)
        document_id = earlier.document_id if document is None else document.id
        if document_id is not None:
            check_same_document(earlier, document_id, PREVIOUS)
        checked = check_question(
            question,
            services.config,
            services.engine.model.generation,
            has_document=document_id is not None,
            param=self.param,
        )
        asked = replace(
            checked,
            turns=earlier.turns,
            may_drop_turns=question.drop_oldest_turns,
            keeping=keeping,
            # Clients of chats send all turns along; those without a document are often titles.
            may_go_on=keeping is not None or document is not None or bool(earlier.turns),
        )
        return await submit_question(services, self.caller, document_id, asked, self.exchange)
