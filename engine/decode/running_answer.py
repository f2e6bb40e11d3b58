"""One question while it is being answered, and the answer that it ends with."""

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.attend.budget import BudgetReport, report_budget
from engine.attend.evidence import AttentionMass, Evidence, find_evidence
from engine.attend.question import open_question
from engine.decode.detokenizer import IncrementalDetokenizer
from engine.decode.graph_pool import DecodeGraphPool, DecodeSession
from engine.decode.sampling import Sampler, Sampling
from engine.document.cache import DocumentCache
from engine.model.attention import forward
from engine.model.loader import LoadedModel


@dataclass(frozen=True)
class TextDelta:
    """Text that is added to the answer."""

    text: str


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
    """A whole answer.

    Attributes:
        finish_reason: "stop", or "length" where a limit cut it.
        timings_ms: milliseconds from the start to the end of the question's prefill, to the first
            token and to the end (`total`), and the time spent decoding.
    """

    text: str
    finish_reason: str
    evidence: tuple[Evidence, ...]
    budget: BudgetReport
    usage: Usage
    timings_ms: dict[str, float]


class RunningAnswer:
    """The state of one question between its forward passes; made by `Engine.start`.

    Args:
        ids: the question's token ids (tokens,) int64, on the model's device.
        budget: share of the document cache's bytes that was asked for, in (0, 1].
        max_tokens: of the answer, as many as sampling and context allow.
    """

    def __init__(
        self,
        model: LoadedModel,
        graphs: DecodeGraphPool,
        document: DocumentCache,
        ids: Tensor,
        *,
        budget: float,
        sampling: Sampling,
        max_tokens: int,
    ) -> None:
        self._started_s = time.perf_counter()
        self._model, self._document = model, document
        self._requested = budget
        self._applied = budget if budget >= 1.0 else max(budget, document.curves.floor)
        self._mass = AttentionMass(document.num_tokens, document.num_sinks, model.device)
        self._state = open_question(
            document, self._applied, self._mass, kernels=graphs.uses_kernels
        )
        self._sampler = Sampler(sampling, model.repetition_penalty, model.device)
        self._detokenizer = IncrementalDetokenizer(model.tokenizer)
        self._ids, self._num_question = ids, len(ids)
        self._max_tokens = max_tokens
        self._session = DecodeSession(graphs, model.model, self._state, len(ids) + max_tokens)
        self._finish_reason: str | None = None
        self._marks_ms: dict[str, float] = {}

    @property
    def is_finished(self) -> bool:
        """Whether the last token was taken."""
        return self._finish_reason is not None

    def step(self) -> str:
        """Take one forward pass and the token that follows from it.

        Returns: the text that is certain now; "" while a character is incomplete.
        """
        if len(self._ids) == self._num_question:
            logits = forward(self._model.model, self._ids, self._state.position, self._state)[-1]
        else:
            logits = self._session.logits(self._ids[-1:])
        self._marks_ms.setdefault("question_prefill", self._elapsed_ms())
        token = self._sampler.next_token(self._ids, logits)
        self._marks_ms.setdefault("first_token", self._elapsed_ms())
        if token in self._model.eos_ids:
            self._finish_reason = "stop"
            return ""
        self._ids = torch.cat((self._ids, self._ids.new_tensor([token])))
        if self._num_answer >= self._max_tokens:
            self._finish_reason = "length"
        return self._detokenizer.push(token)

    def flush(self) -> str:
        """Return the text that was held back for an incomplete character."""
        return self._detokenizer.flush()

    def close(self) -> None:
        """Give the decode graph back, and take over the attention mass that it collected."""
        self._session.close()

    def result(self) -> Answer:
        """Put the whole answer together, after the last step and `close`."""
        marks = self._marks_ms
        marks["decode"] = self._elapsed_ms() - marks["first_token"]
        evidence = find_evidence(self._document, self._mass.on_tokens())
        marks["total"] = self._elapsed_ms()
        meter = self._state.meter
        return Answer(
            text=self._detokenizer.text,
            finish_reason=self._finish_reason or "stop",
            evidence=evidence,
            budget=report_budget(meter, self._requested, self._applied),
            usage=Usage(
                document_tokens=self._document.num_tokens,
                question_tokens=self._num_question,
                completion_tokens=self._num_answer,
                kv_bytes_read=meter.bytes_read,
                kv_bytes_stored=self._document.kv_bytes,
            ),
            timings_ms={name: round(value, 3) for name, value in marks.items()},
        )

    @property
    def _num_answer(self) -> int:
        return len(self._ids) - self._num_question

    def _elapsed_ms(self) -> float:
        return (time.perf_counter() - self._started_s) * 1e3
