"""The work on one question about one document, beside the engine loop's."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar
from uuid import UUID

import structlog

from app.http.schemas import Body
from app.questions.answer_store import AnswerStore
from app.questions.checked_question import CheckedQuestion
from app.questions.schemas import (
    AnswerBody,
    AnswerItem,
    BudgetBody,
    ConfidenceBody,
    EvidenceBody,
    GroundedBody,
    QuoteBody,
    SamplingBody,
    SentenceBody,
    ThinkingBody,
    UsageBody,
)
from app.questions.turns_job import TurnsJob, key_of
from app.services.background_writes import BackgroundWrites
from app.services.document_loader import DocumentLoader
from app.services.metrics import budget_kind
from app.services.question_queue import PendingAnswer
from common.errors import EmptyQuestion, GpuBusy, LecternError, QuestionTooLong
from common.owner import Owner
from common.spans import OK, Span, SpanListener, Value, ignore_spans, stages_in_order
from engine.decode.answer import Answer, TextDelta
from engine.decode.turn_states import DocumentKey
from engine.document.cache import DocumentCache
from engine.model.loader import LoadedModel
from engine.model.prompt import Turn
from engine.residents.documents import Lease
from engine.residents.entry import Tier
from engine.serving.engine_loop import EngineLoop
from engine.serving.request import AnswerRequest
from storage.answers import Answers
from storage.db.records import DocumentRecord
from storage.quotas.quotas import QuestionGrant
from storage.turns import Turns

BodyType = TypeVar("BodyType", bound=Body)
STAGES = {"queue": "queue", "load": "load", "question_prefill": "prefill"}  # before decoding


@dataclass(frozen=True)
class AnswerParts:
    """What the work on all answers needs.

    Attributes:
        model: for its own way of choosing tokens.
        engine_loop: answers.
        loader: leases documents.
        answers: where answers are recorded, by `background_writes`.
        turns: where answers are kept that a conversation goes on from.
        answer_store: where answers are stored for the same question.
        no_document: what a chat without a document is asked about.
        on_span: told of each question when it has ended.
    """

    model: LoadedModel
    engine_loop: EngineLoop
    loader: DocumentLoader
    answers: Answers
    background_writes: BackgroundWrites
    turns: Turns
    answer_store: AnswerStore
    no_document: DocumentCache
    on_span: SpanListener = ignore_spans


class AnswerJob:
    """The work of answering a question; an `AnswerListener`.

    However it ends, there is one line about it in the log.

    Args:
        parts: what all answers need.
        tenant_id: whose question it is.
        document: what is asked about, which is ready; None for a chat with the model alone.
        question: what is asked.
        pending: where the answer goes.
        owner: whose question it is; tenants and their keys are served in turn.
        grant: what the question may use of its tenant's quotas; None for no limit.
        trace_parent: the caller's span, as W3C `traceparent`; empty for none.
    """

    def __init__(
        self,
        parts: "AnswerParts",
        tenant_id: UUID,
        document: DocumentRecord | None,
        question: CheckedQuestion,
        pending: PendingAnswer[AnswerItem],
        owner: Owner,
        request_id: str = "",
        grant: QuestionGrant | None = None,
        trace_parent: str = "",
    ) -> None:
        self._parts = parts
        self._grant = grant
        self._tenant_id = tenant_id
        self._document = document
        self._question = question
        self._pending = pending
        self._log = structlog.get_logger("lectern.questions").bind(
            request_id=request_id, document_id=None if document is None else str(document.id)
        )
        self._owner, self._trace_parent, self._request_id = owner, trace_parent, request_id
        self._arrived_s = time.time()
        self._answered: Span | None = None
        self._begun_s = time.monotonic()
        self._lease: Lease[DocumentCache] | None = None
        self._has_spoken = self._was_tried_again = False
        self._turns: tuple[Turn, ...] = ()  # the answer's included, once there is one

    def request(self) -> AnswerRequest:
        """Return what the engine loop is asked."""
        question = self._question
        return AnswerRequest(
            self._owner,
            question.text,
            question.budget,
            question.sampling,
            self,
            turns=question.turns,
            may_drop_turns=question.may_drop_turns,
        )

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody wants the answer any more."""
        return self._pending.is_cancelled()

    def begin(self) -> None:
        """Take note that the question has its slot."""
        self._begun_s = time.monotonic()
        if self._grant is not None:
            self._grant.begin()
        self._pending.begin()

    def open_document(self) -> DocumentCache:
        """Lease the document. Raises: as `DocumentLoader.lease`."""
        if self._document is None:
            return self._parts.no_document
        self._lease = self._parts.loader.lease(self._document)
        return self._lease.cache

    @property
    def document_key(self) -> DocumentKey | None:
        """As which document's turns earlier ones may be kept."""
        return key_of(self._tenant_id, self._document, self._lease)

    def deliver(self, item: TextDelta | Answer) -> None:
        """Pass text on, and the whole answer as a body."""
        self._has_spoken = True
        if isinstance(item, TextDelta):
            self._pending.put(item)
            return
        lease = self._lease
        load_ms = 0.0 if lease is None else lease.load_ms
        question = self._question
        self._turns = (
            *question.turns[item.num_dropped_turns :],
            Turn(question.text, item.text),
        )
        if self._grant is not None:
            self._grant.end(item.usage.question_tokens + item.usage.completion_tokens)
        timings_ms = _timings_ms(item, self._pending.queue_ms, load_ms)
        if lease is not None and self._document is not None:
            self._record(item, self._document, lease, timings_ms)
        body = self._answer_body(item, timings_ms, cache_hit=lease is None or lease.hit)
        self._answered = self._answer_span(body)
        log_answer(self._log, body)
        if self._document is not None and (key := self._question.answer_key):
            store = partial(self._parts.answer_store.add, self._document, key, body)
            self._parts.background_writes.add(store)
        self._pending.put(body)

    def end(self, error: Exception | None) -> None:
        """Give the document back, and pass the end on.

        If the GPU's memory ran out while it was answered, other documents are evicted; unless some
        of the answer is on its way, the question is asked once more then.
        """
        error = self._pending.reason(error)
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
        if error is None and self._question.may_go_on and self._turns:
            self._keep_turns()
        if isinstance(error, EmptyQuestion | QuestionTooLong):
            error.param = self._question.param
        if error is not None:
            code = error.code if isinstance(error, LecternError) else LecternError.code
            queue_ms = round(self._pending.queue_ms, 1)
            duration_ms = round(1000 * (time.monotonic() - self._begun_s), 1)
            self._log.info("no answer", code=code, queue_ms=queue_ms, duration_ms=duration_ms)
            self._answered = self._span(code, (("queue", queue_ms),), {})
        self._pending.end(error)
        if self._answered is not None:
            self._parts.on_span(self._answered)

    def _answer_span(self, body: AnswerBody) -> Span:
        timings_ms, usage, budget = body.timings_ms, body.usage, body.budget
        decode_ms = timings_ms["total"] - sum(timings_ms[name] for name in STAGES)
        stages = [(stage, timings_ms[name]) for name, stage in STAGES.items()]
        attributes: dict[str, Value] = {
            "first_token_s": timings_ms["first_token"] / 1000,
            "document_tokens": usage.document_tokens,
            "question_tokens": usage.question_tokens,
            "answer_tokens": usage.completion_tokens,
            "cache_hit": body.cache_hit,
            "budget_kind": budget_kind(budget.requested, budget.tolerance),
            "budget_requested": budget.requested,
            "budget_loaded": budget.loaded,
            "kv_bytes_read": usage.kv_bytes_read,
            "kv_bytes_full": usage.kv_bytes_read / budget.loaded if budget.loaded else 0,
        }
        return self._span(OK, (*stages, ("decode", decode_ms)), attributes)

    def _span(
        self,
        code: str,
        stages_ms: Sequence[tuple[str, float]],
        attributes: Mapping[str, Value],
    ) -> Span:
        """Return what there is to tell about this question: figures and ids, and no text."""
        ids = {"request_id": self._request_id}
        if self._document is not None:
            ids["document_id"] = str(self._document.id)
        stages_s = [(name, duration_ms / 1000) for name, duration_ms in stages_ms]
        return Span(
            "question",
            self._arrived_s,
            time.time() - self._arrived_s,
            ids | dict(attributes),
            stages_in_order(self._arrived_s, stages_s),
            code,
            self._trace_parent,
        )

    def _keep_turns(self) -> None:
        """Let the turns' keys and values be kept for a question that may come."""
        parts = self._parts
        job = TurnsJob(parts.loader, parts.no_document, self._tenant_id, self._document)
        parts.engine_loop.submit(job.request(self._owner, self._turns, self._question.budget))

    def _keep(self, body: AnswerBody) -> AnswerBody:
        """Keep the answer as a turn, if that was asked for.

        Returns: its body, without an id, and with a logged reason, if it could not be kept.
        """
        keeping = self._question.keeping
        if keeping is None:
            return body
        try:
            self._parts.turns.add(
                self._tenant_id,
                None if self._document is None else self._document.id,
                self._question.text,
                body.answer,
                keeping.previous_id,
                turn_id=keeping.turn_id,
                body=body.model_dump_json(),
            )
        except LecternError as error:
            self._log.warning("the answer was not kept", code=error.code)
            return body.model_copy(update={"answer_id": None})
        return body

    def _record(
        self,
        answer: Answer,
        document: DocumentRecord,
        lease: Lease[DocumentCache],
        timings_ms: dict[str, float],
    ) -> None:
        """Let the answer's figures be recorded, for which the caller does not wait."""
        write = partial(
            self._parts.answers.record,
            tenant_id=document.tenant_id,
            document_id=document.id,
            cache_hit=lease.hit,
            budget_requested=answer.budget.requested,
            budget_loaded=answer.budget.loaded,
            first_token_ms=timings_ms["first_token"],
            total_ms=timings_ms["total"],
            num_tokens=answer.usage.completion_tokens,
            saved_ms=(document.reading_ms or 0.0) - lease.load_ms,
            kind=self._question.kind,
            queue_ms=timings_ms["queue"],
            decode_ms=timings_ms["decode"],
            kv_bytes_read=answer.usage.kv_bytes_read,
            kv_bytes_full=_full_bytes(answer),
            document_tokens=answer.usage.document_tokens,
        )
        self._parts.background_writes.add(write)

    def _answer_body(
        self, answer: Answer, timings_ms: dict[str, float], *, cache_hit: bool
    ) -> AnswerBody:
        sampling, keeping = self._question.sampling, self._question.keeping
        thinking, claims = answer.thinking, answer.claims
        body = AnswerBody.model_validate(
            {
                "document_id": None if self._document is None else str(self._document.id),
                "answer_id": None if keeping is None else str(keeping.turn_id),
                "answer": answer.text,
                "thinking": None if thinking is None else _as_body(thinking, ThinkingBody),
                "finish_reason": answer.finish_reason,
                "mode": "free" if answer.quotes is None else "quote",
                "refused": answer.refused,
                "quotes": [_as_body(quote, QuoteBody) for quote in answer.quotes or ()],
                "grounded": None
                if claims is None
                else [_as_body(claim, GroundedBody) for claim in claims],
                "confidence": _as_body(answer.confidence, ConfidenceBody),
                "evidence": [_as_body(passage, EvidenceBody) for passage in answer.evidence],
                "sentences": [_as_body(sentence, SentenceBody) for sentence in answer.sentences],
                "budget": _as_body(answer.budget, BudgetBody),
                "usage": _as_body(answer.usage, UsageBody),
                "sampling": SamplingBody(
                    temperature=sampling.temperature,
                    top_p=sampling.top_p,
                    top_k=sampling.top_k,
                    min_p=sampling.min_p,
                    repetition_penalty=self._parts.model.generation.repetition_penalty,
                ),
                "timings_ms": timings_ms,
                "cache_hit": cache_hit,
                "num_dropped_turns": answer.num_dropped_turns,
                "attention": answer.attention if self._question.wants_attention else None,
            }
        )
        return self._keep(body)


def log_answer(
    log: structlog.typing.FilteringBoundLogger, answer: AnswerBody, *, is_stored: bool = False
) -> None:
    """Write the line about an answer."""
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
        is_stored=is_stored,
    )


def _as_body(result: object, body_type: type[BodyType]) -> BodyType:
    """Return a result of the engine as the body that has its fields."""
    return body_type.model_validate(result, from_attributes=True)


def _full_bytes(answer: Answer) -> int:
    """Return the bytes that full attention would have read in the same forward passes."""
    loaded = answer.budget.loaded
    return round(answer.usage.kv_bytes_read / loaded) if loaded > 0 else 0


def _timings_ms(answer: Answer, queue_ms: float, load_ms: float) -> dict[str, float]:
    """Return the milliseconds of each stage; `first_token` and `total` count from the arrival."""
    before_ms = queue_ms + load_ms
    timings_ms = {"queue": queue_ms, "load": load_ms, **answer.timings_ms}
    timings_ms["first_token"] = before_ms + answer.timings_ms["first_token"]
    timings_ms["total"] = before_ms + answer.timings_ms["total"]
    return {stage: round(duration_ms, 3) for stage, duration_ms in timings_ms.items()}
