"""The work on one question about one document, beside the engine loop's."""

import time
from collections.abc import Hashable
from dataclasses import asdict, dataclass
from functools import partial

import structlog

from app.questions.checked_question import CheckedQuestion
from app.questions.schemas import (
    AnswerBody,
    AnswerItem,
    BudgetBody,
    EvidenceBody,
    SamplingBody,
    ThinkingBody,
    UsageBody,
)
from app.services.background_writes import BackgroundWrites
from app.services.document_loader import DocumentLoader
from app.services.question_queue import PendingAnswer
from common.errors import GpuBusy, LecternError
from engine.decode.answer import Answer, TextDelta
from engine.document.cache import DocumentCache
from engine.model.loader import LoadedModel
from engine.residents.documents import Lease
from engine.residents.entry import Tier
from engine.serving.engine_loop import EngineLoop
from engine.serving.request import AnswerRequest
from storage.answers import OK, Answers
from storage.db.records import DocumentRecord


@dataclass(frozen=True)
class AnswerParts:
    """What the work on all answers needs.

    Attributes:
        model: for its own way of choosing tokens.
        engine_loop: answers.
        loader: leases documents.
        answers: where answers are recorded, by `background_writes`.
    """

    model: LoadedModel
    engine_loop: EngineLoop
    loader: DocumentLoader
    answers: Answers
    background_writes: BackgroundWrites


class AnswerJob:
    """The work of answering a question about a ready document; an `AnswerListener`.

    However it ends, there is one line about it in the log.

    Args:
        parts: what all answers need.
        document: what is asked about.
        question: what is asked.
        pending: where the answer goes.
        key: whose question it is; keys are served in turn.
    """

    def __init__(
        self,
        parts: "AnswerParts",
        document: DocumentRecord,
        question: CheckedQuestion,
        pending: PendingAnswer[AnswerItem],
        key: Hashable,
        request_id: str = "",
    ) -> None:
        self._parts = parts
        self._document = document
        self._question = question
        self._pending = pending
        self._log = structlog.get_logger("lectern.questions").bind(
            request_id=request_id, document_id=str(document.id)
        )
        self._key = key
        self._begun_s = time.monotonic()
        self._lease: Lease[DocumentCache] | None = None
        self._has_spoken = self._was_tried_again = False

    def request(self) -> AnswerRequest:
        """Return what the engine loop is asked."""
        question = self._question
        return AnswerRequest(self._key, question.text, question.budget, question.sampling, self)

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody wants the answer any more."""
        return self._pending.is_cancelled()

    def begin(self) -> None:
        """Take note that the question has its slot."""
        self._begun_s = time.monotonic()
        self._pending.begin()

    def open_document(self) -> DocumentCache:
        """Lease the document. Raises: as `DocumentLoader.lease`."""
        self._lease = self._parts.loader.lease(self._document)
        return self._lease.cache

    def deliver(self, item: TextDelta | Answer) -> None:
        """Pass text on, and the whole answer as a body."""
        self._has_spoken = True
        if isinstance(item, TextDelta):
            self._pending.put(item)
            return
        lease = self._lease
        assert lease is not None  # there is no answer without a document
        timings_ms = _timings_ms(item, self._pending.queue_ms, lease.load_ms)
        self._record(item, lease, timings_ms)
        body = self._answer_body(item, timings_ms, cache_hit=lease.hit)
        _log_answer(self._log, body)
        self._pending.put(body)

    def end(self, error: Exception | None) -> None:
        """Give the document back, and pass the end on.

        If the GPU's memory ran out while it was answered, other documents are evicted; unless some
        of the answer is on its way, the question is asked once more then.
        """
        lease, self._lease = self._lease, None
        if lease is not None:
            if isinstance(error, GpuBusy):
                documents = self._parts.loader.documents
                documents.evict(documents.limit_bytes(Tier.DEVICE))
            lease.close()
            if isinstance(error, GpuBusy) and not (self._has_spoken or self._was_tried_again):
                self._was_tried_again = True
                self._parts.engine_loop.submit(self.request())
                return
        if error is not None:
            code = error.code if isinstance(error, LecternError) else LecternError.code
            queue_ms = round(self._pending.queue_ms, 1)
            duration_ms = round(1000 * (time.monotonic() - self._begun_s), 1)
            self._log.info("no answer", code=code, queue_ms=queue_ms, duration_ms=duration_ms)
        self._pending.end(error)

    def _record(
        self, answer: Answer, lease: Lease[DocumentCache], timings_ms: dict[str, float]
    ) -> None:
        """Let the answer's figures be recorded, for which the caller does not wait."""
        write = partial(
            self._parts.answers.record,
            tenant_id=self._document.tenant_id,
            document_id=self._document.id,
            cache_hit=lease.hit,
            budget_requested=answer.budget.requested,
            budget_loaded=answer.budget.loaded,
            first_token_ms=timings_ms["first_token"],
            total_ms=timings_ms["total"],
            num_tokens=answer.usage.completion_tokens,
            saved_ms=(self._document.reading_ms or 0.0) - lease.load_ms,
        )
        self._parts.background_writes.add(write)

    def _answer_body(
        self, answer: Answer, timings_ms: dict[str, float], *, cache_hit: bool
    ) -> AnswerBody:
        penalty = self._parts.model.generation.repetition_penalty
        fields = asdict(self._question.sampling) | {"repetition_penalty": penalty}
        sampling = {name: fields[name] for name in SamplingBody.model_fields}
        thinking = answer.thinking
        return AnswerBody.model_validate(
            {
                "document_id": str(self._document.id),
                "answer": answer.text,
                "thinking": None if thinking is None else ThinkingBody(**asdict(thinking)),
                "finish_reason": answer.finish_reason,
                "evidence": [EvidenceBody(**asdict(passage)) for passage in answer.evidence],
                "budget": BudgetBody(**asdict(answer.budget)),
                "usage": UsageBody(**asdict(answer.usage)),
                "sampling": SamplingBody(**sampling),
                "timings_ms": timings_ms,
                "cache_hit": cache_hit,
            }
        )


def _log_answer(log: structlog.typing.FilteringBoundLogger, answer: AnswerBody) -> None:
    timings_ms = answer.timings_ms
    log.info(
        "answer",
        code=OK,
        queue_ms=timings_ms["queue"],
        load_ms=timings_ms["load"],
        first_token_ms=timings_ms["first_token"],
        duration_ms=timings_ms["total"],
        num_tokens=answer.usage.completion_tokens,
        num_document_tokens=answer.usage.document_tokens,
        num_kv_bytes_read=answer.usage.kv_bytes_read,
        budget_loaded=answer.budget.loaded,
        cache_hit=answer.cache_hit,
    )


def _timings_ms(answer: Answer, queue_ms: float, load_ms: float) -> dict[str, float]:
    """Return the milliseconds of each stage; `first_token` and `total` count from the arrival."""
    before_ms = queue_ms + load_ms
    timings_ms = {"queue": queue_ms, "load": load_ms, **answer.timings_ms}
    timings_ms["first_token"] = before_ms + answer.timings_ms["first_token"]
    timings_ms["total"] = before_ms + answer.timings_ms["total"]
    return {stage: round(duration_ms, 3) for stage, duration_ms in timings_ms.items()}
