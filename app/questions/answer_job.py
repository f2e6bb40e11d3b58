"""Answer one question about one document; this runs on a thread of the question queue."""

import time
from collections.abc import Iterator
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
from common.errors import CallerGone, GpuBusy, LecternError
from engine.decode.answer import Answer, TextDelta
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.model.memory import out_of_memory_as_busy
from engine.residents.documents import Lease
from engine.residents.entry import Tier
from storage.answers import OK, Answers
from storage.db.records import DocumentRecord


@dataclass(frozen=True)
class AnswerJob:
    """The work of answering a question about a ready document."""

    engine: Engine
    loader: DocumentLoader
    answers: Answers
    background_writes: BackgroundWrites
    document: DocumentRecord
    question: CheckedQuestion
    request_id: str = ""

    def run(self, pending: PendingAnswer[AnswerItem]) -> Iterator[AnswerItem]:
        """Load the document and answer; yield the text as it comes, then the whole answer.

        However it ends, there is one line about it in the log.

        Raises: what `DocumentLoader.lease` and `Engine.answer` raise, and GpuBusy.
        """
        log = structlog.get_logger("lectern.questions").bind(
            request_id=self.request_id, document_id=str(self.document.id)
        )
        code, started_s = CallerGone.code, time.monotonic()
        try:
            for item in self._run(pending):
                if isinstance(item, AnswerBody):
                    code = OK
                    _log_answer(log, item)
                yield item
        except LecternError as error:
            code = error.code
            raise
        except Exception:
            code = LecternError.code
            raise
        finally:
            if code != OK:
                duration_ms = round(1000 * (time.monotonic() - started_s), 1)
                queue_ms = round(pending.queue_ms, 1)
                log.info("no answer", code=code, queue_ms=queue_ms, duration_ms=duration_ms)

    def _run(self, pending: PendingAnswer[AnswerItem]) -> Iterator[AnswerItem]:
        with self.loader.lease(self.document) as lease:
            for item in self._answer(lease.cache, pending):
                if isinstance(item, TextDelta):
                    yield item
                else:
                    timings_ms = _timings_ms(item, pending.queue_ms, lease.load_ms)
                    self._record(item, lease, timings_ms)
                    yield self._answer_body(item, timings_ms, cache_hit=lease.hit)

    def _answer(
        self, cache: DocumentCache, pending: PendingAnswer[AnswerItem]
    ) -> Iterator[TextDelta | Answer]:
        """Run the engine; if the GPU's memory runs out, evict other documents.

        Unless some of the answer is on its way, it is tried once more then. Raises: GpuBusy.
        """
        has_begun = False
        try:
            for item in self._ask(cache, pending):
                has_begun = True
                yield item
        except GpuBusy:
            documents = self.loader.documents
            documents.evict(documents.limit_bytes(Tier.DEVICE))
            if has_begun:
                raise
        else:
            return
        yield from self._ask(cache, pending)

    def _ask(
        self, cache: DocumentCache, pending: PendingAnswer[AnswerItem]
    ) -> Iterator[TextDelta | Answer]:
        with out_of_memory_as_busy():
            yield from self.engine.answer(
                cache,
                self.question.text,
                budget=self.question.budget,
                sampling=self.question.sampling,
                cancelled=pending.is_cancelled,
            )

    def _record(
        self, answer: Answer, lease: Lease[DocumentCache], timings_ms: dict[str, float]
    ) -> None:
        """Let the answer's figures be recorded, for which the caller does not wait."""
        write = partial(
            self.answers.record,
            tenant_id=self.document.tenant_id,
            document_id=self.document.id,
            cache_hit=lease.hit,
            budget_requested=answer.budget.requested,
            budget_loaded=answer.budget.loaded,
            first_token_ms=timings_ms["first_token"],
            total_ms=timings_ms["total"],
            num_tokens=answer.usage.completion_tokens,
            saved_ms=(self.document.reading_ms or 0.0) - lease.load_ms,
        )
        self.background_writes.add(write)

    def _answer_body(
        self, answer: Answer, timings_ms: dict[str, float], *, cache_hit: bool
    ) -> AnswerBody:
        penalty = self.engine.model.generation.repetition_penalty
        fields = asdict(self.question.sampling) | {"repetition_penalty": penalty}
        sampling = {name: fields[name] for name in SamplingBody.model_fields}
        thinking = answer.thinking
        return AnswerBody.model_validate(
            {
                "document_id": str(self.document.id),
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
