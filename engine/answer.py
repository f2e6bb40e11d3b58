"""Answering: the question's prefill, then one token after the other."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from common.errors import Cancelled, EmptyQuestion, QuestionTooLong
from engine.attend.budget_controller import BudgetController
from engine.attend.clusters import FullClusterAttention
from engine.attend.clusters_gpu import on_gpu, sparse_attention_for
from engine.attend.evidence import AttentionMass, Evidence, find_evidence
from engine.attend.question import QuestionState
from engine.attend.read_meter import ReadMeter
from engine.decode.detokenizer import IncrementalDetokenizer
from engine.decode.graph_pool import DecodeSession
from engine.decode.sampling import Sampler, Sampling
from engine.document.cache import DocumentCache
from engine.model.attention import forward
from engine.model.loader import LoadedModel


@dataclass(frozen=True)
class TextDelta:
    """A piece of the answer's text."""

    text: str


@dataclass(frozen=True)
class BudgetReport:
    """Shares of the document cache's bytes per generated token.

    Attributes:
        requested: what was asked for.
        applied: what was aimed at: the request, or the floor if that is higher.
        loaded: what was read, centroids included.
        loaded_prefill, loaded_decode: the same, for the question's prefill and for decoding apart.
        raised: whether the request was below the floor.
    """

    requested: float
    applied: float
    loaded: float
    loaded_prefill: float
    loaded_decode: float
    raised: bool


@dataclass(frozen=True)
class Usage:
    """Tokens of each part, and bytes of document cache read and stored."""

    document_tokens: int
    question_tokens: int
    completion_tokens: int
    kv_bytes_read: int
    kv_bytes_stored: int


@dataclass(frozen=True)
class Answer:
    """A whole answer; `finish_reason` is "stop", or "length" where a limit cut it."""

    text: str
    finish_reason: str
    evidence: tuple[Evidence, ...]
    budget: BudgetReport
    usage: Usage
    timings_ms: dict[str, float]


def _never() -> bool:
    return False


def answer(
    model: LoadedModel,
    document: DocumentCache,
    question: str,
    *,
    budget: float,
    sampling: Sampling,
    cancelled: Callable[[], bool] = _never,
) -> Iterator[TextDelta | Answer]:
    """Answer a question about a document: pieces as they come, the whole answer last.

    Args:
        budget: share of the document cache that may be read per token, in (0, 1].
        cancelled: asked before every forward pass.
    Raises: EmptyQuestion, QuestionTooLong, Cancelled.
    """
    started = time.perf_counter()
    ids = _encode_question(model, document, question)
    num_asked, limit = len(ids), min(sampling.max_tokens, _room(model, document, ids))
    applied = budget if budget >= 1.0 else max(budget, document.curves.floor)
    mass = AttentionMass(document.num_tokens, document.num_sinks, model.device)
    state = open_question(document, applied, mass, kernels=model.decoders.uses_kernels)
    sampler = Sampler(sampling, model.repetition_penalty, model.device)
    pieces = IncrementalDetokenizer(model.tokenizer)
    marks: dict[str, float] = {}
    finish, fresh = "length", ids
    with DecodeSession(model.decoders, model.model, state, num_asked + limit) as decoding:
        while True:
            if cancelled():
                raise Cancelled("The caller went away.")
            if fresh is ids:
                logits = forward(model.model, ids, state.position, state)[-1]
            else:
                logits = decoding.logits(fresh)
            marks.setdefault("question_prefill", _since(started))
            token = sampler.next_token(ids, logits)
            marks.setdefault("first_token", _since(started))
            if token in model.eos_ids:
                finish = "stop"
                break
            fresh = torch.tensor([token], device=model.device)
            ids = torch.cat((ids, fresh))
            if text := pieces.push(token):
                yield TextDelta(text)
            if len(ids) - num_asked >= limit:
                break
    if rest := pieces.flush():
        yield TextDelta(rest)
    marks["decode"] = _since(started) - marks["first_token"]
    evidence = find_evidence(document, mass.on_tokens())
    marks["total"] = _since(started)
    yield Answer(
        text=pieces.text,
        finish_reason=finish,
        evidence=evidence,
        budget=report_budget(state, budget, applied),
        usage=Usage(
            document_tokens=document.num_tokens,
            question_tokens=num_asked,
            completion_tokens=len(ids) - num_asked,
            kv_bytes_read=state.meter.bytes_read,
            kv_bytes_stored=document.kv_bytes,
        ),
        timings_ms={name: round(value, 3) for name, value in marks.items()},
    )


def _encode_question(model: LoadedModel, document: DocumentCache, question: str) -> Tensor:
    if not question.strip():
        raise EmptyQuestion("The question is empty.", param="question")
    ids = model.prompt.encode_question(question.strip()).to(model.device)
    if (room := _room(model, document, ids)) < 1:
        raise QuestionTooLong(
            f"The question has {len(ids)} tokens, but beside the document's {document.num_tokens} "
            f"only {len(ids) + room - 1} fit.",
            param="question",
        )
    return ids


def _room(model: LoadedModel, document: DocumentCache, ids: Tensor) -> int:
    """Tokens of the model's context that document and question leave free."""
    return model.spec.context_length - document.num_tokens - len(ids)


def open_question(
    document: DocumentCache,
    budget: float,
    mass: AttentionMass | None = None,
    *,
    kernels: bool = True,
) -> QuestionState:
    """The attention state that keeps to a budget, in (0, 1], at or above the document's floor.

    Args:
        kernels: whether a document on a GPU may be attended to by kernels of our own.
    """
    if budget >= 1.0:
        return QuestionState(document, FullClusterAttention(), FullClusterAttention(), mass)
    meter, reach = ReadMeter(), sparse_attention_for(document, kernels=kernels)
    prefill = reach(document.curves.prefill.at(budget))
    decode = BudgetController(document.curves.decode, budget, reach, meter)
    fused = kernels and on_gpu(document)
    return QuestionState(document, prefill, decode, mass, meter, kernels=fused)


def report_budget(state: QuestionState, requested: float, applied: float) -> BudgetReport:
    """What a question loaded, in all its passes."""
    return BudgetReport(
        requested=requested,
        applied=applied,
        loaded=round(state.meter.share(), 4),
        loaded_prefill=round(state.meter.share(0, 1), 4),
        loaded_decode=round(state.meter.share(1), 4),
        raised=applied > requested,
    )


def _since(started: float) -> float:
    return (time.perf_counter() - started) * 1e3
