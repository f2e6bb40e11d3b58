"""From a question to its answer as JSON; runs on a desk thread."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import structlog

from app.documents.loader import open_document
from app.services.document_cache import Resident
from app.services.question_queue import Ticket
from app.services.services import Services
from common.errors import GpuBusy, LecternError
from engine.decode.running_answer import Answer, TextDelta
from engine.decode.sampling import Sampling
from engine.document.cache import DocumentCache
from engine.model.memory import out_of_memory_as_busy
from storage.db.records import DocumentRecord


@dataclass(frozen=True)
class AskedQuestion:
    """A checked question: budget in (0, 1], sampling within the server's bounds."""

    text: str
    budget: float
    sampling: Sampling


@dataclass(frozen=True)
class AnswerBody:
    """The whole answer as its JSON object."""

    json: dict[str, Any]


Work = Callable[[Ticket[TextDelta | AnswerBody]], Iterator[TextDelta | AnswerBody]]


def answering(services: Services, document: DocumentRecord, question: AskedQuestion) -> Work:
    """Return the work of answering `question`: pieces first, the AnswerBody last."""

    def work(ticket: Ticket[TextDelta | AnswerBody]) -> Iterator[TextDelta | AnswerBody]:
        opened = open_document(services, document)
        for item in _answer(services, opened.cache, question, ticket.cancelled):
            if isinstance(item, TextDelta):
                yield item
                continue
            timings_ms = _timings(item, ticket.queue_ms, opened.load_ms)
            _record(services, document, item, opened, timings_ms)
            yield AnswerBody(_body(document, item, opened, timings_ms))

    return work


def _answer(
    services: Services,
    cache: DocumentCache,
    question: AskedQuestion,
    cancelled: Callable[[], bool],
) -> Iterator[TextDelta | Answer]:
    """Answer; where the GPU is full, let the next question find it empty."""
    try:
        with out_of_memory_as_busy():
            yield from services.engine.answer(
                cache,
                question.text,
                budget=question.budget,
                sampling=question.sampling,
                cancelled=cancelled,
            )
    except GpuBusy:
        services.resident.clear()
        raise


def _record(
    services: Services,
    document: DocumentRecord,
    answer: Answer,
    opened: Resident[DocumentCache],
    timings_ms: dict[str, float],
) -> None:
    """Count the answer; what cannot be counted was answered all the same."""
    try:
        services.storage.answers.record(
            tenant_id=document.tenant_id,
            document_id=document.id,
            cache_hit=opened.hit,
            budget_requested=answer.budget.requested,
            budget_loaded=answer.budget.loaded,
            first_token_ms=timings_ms["first_token"],
            total_ms=timings_ms["total"],
            num_tokens=answer.usage.completion_tokens,
            saved_ms=(document.reading_ms or 0.0) - opened.load_ms,
        )
    except LecternError as error:
        structlog.get_logger("lectern.answers").warning("not counted", code=error.code)


def _timings(answer: Answer, queue_ms: float, load_ms: float) -> dict[str, float]:
    """Stages in ms; `first_token` and `total` count from the question's arrival."""
    before = queue_ms + load_ms
    stages = {"queue": queue_ms, "load": load_ms, **answer.timings_ms}
    stages["first_token"] = before + answer.timings_ms["first_token"]
    stages["total"] = before + answer.timings_ms["total"]
    return {name: round(ms, 3) for name, ms in stages.items()}


def _body(
    document: DocumentRecord,
    answer: Answer,
    opened: Resident[DocumentCache],
    timings_ms: dict[str, float],
) -> dict[str, Any]:
    return {
        "document_id": str(document.id),
        "answer": answer.text,
        "finish_reason": answer.finish_reason,
        "evidence": [asdict(passage) for passage in answer.evidence],
        "budget": asdict(answer.budget),
        "usage": asdict(answer.usage),
        "timings_ms": timings_ms,
        "cache_hit": opened.hit,
    }
