"""One question while it is being answered."""

import time

import torch
from torch import Tensor

from engine.attend.budget import report_budget
from engine.attend.evidence import AttentionMass, find_evidence
from engine.attend.question import open_question
from engine.decode.answer import Answer, TextDelta, Usage
from engine.decode.answer_text import AnswerText
from engine.decode.sampling import Sampler, Sampling
from engine.decode.token_limits import TokenLimits
from engine.document.cache import DocumentCache
from engine.model.loader import LoadedModel


class RunningAnswer:
    """One question between its forward passes, which `Engine.step` takes.

    Args:
        ids: the question's token ids (tokens,) int64, on the model's device.
        budget: share of the document cache's bytes that was asked for, in (0, 1].
        room: tokens that the model's context leaves behind document and question.
        kernels: whether attention may go through Triton kernels on a GPU.

    Attributes:
        ids: of the question and of the answer so far (tokens,) int64.
        state: the question's own keys and values, and what it reads of the document.
        max_tokens: that question, thinking and answer have together at most.
    """

    def __init__(
        self,
        model: LoadedModel,
        document: DocumentCache,
        ids: Tensor,
        *,
        budget: float,
        sampling: Sampling,
        room: int,
        kernels: bool,
    ) -> None:
        self._started_s = time.perf_counter()
        self._model, self._document = model, document
        self._requested = budget
        self._applied = budget if budget >= 1.0 else max(budget, document.curves.floor)
        self._mass = self._no_mass()
        self.state = open_question(document, self._applied, self._mass, kernels=kernels)
        self._sampler = Sampler(sampling, model.generation.repetition_penalty, model.device)
        limits = TokenLimits.within(room, sampling, model.prompt.thinking)
        self._text = AnswerText(model.tokenizer, model.prompt.thinking, limits)
        self.ids, self._num_question = ids, len(ids)
        self.max_tokens = len(ids) + limits.total
        self._finish_reason: str | None = None
        self._marks_ms: dict[str, float] = {}

    @property
    def is_finished(self) -> bool:
        """Whether the last token was taken."""
        return self._finish_reason is not None

    @property
    def is_prefilled(self) -> bool:
        """Whether the question's prefill, the first forward pass, was taken."""
        return len(self.ids) > self._num_question

    @property
    def is_thinking(self) -> bool:
        """Whether the model is still thinking, so that evidence is not collected yet."""
        return self._text.is_thinking

    def append_token(self, logits: Tensor) -> TextDelta:
        """Choose the token that follows from a forward pass.

        Args:
            logits: (vocabulary,) fp32.
        Returns: the text that is certain now; "" while a character is incomplete.
        Raises: NonFiniteNumbers if a logit is infinite or undefined.
        """
        self._marks_ms.setdefault("question_prefill", self._elapsed_ms())
        token = self._text.forced_token()
        if token is None:
            token = self._sampler.next_token(self.ids, logits)
        self._marks_ms.setdefault("first_token", self._elapsed_ms())
        if self._text.is_end(token, self._model.eos_ids):
            self._finish_reason = "stop"
            return TextDelta("")
        self.ids = torch.cat((self.ids, self.ids.new_tensor([token])))
        delta = self._text.push(token)
        if self._text.is_full or len(self.ids) >= self.max_tokens:
            self._finish_reason = "length"
        return delta

    def forget_evidence(self) -> None:
        """Drop the attention mass that was collected so far: it belongs to no answer."""
        self._mass = self.state.mass = self._no_mass()

    def flush(self) -> TextDelta:
        """Return the text that was held back for an incomplete character."""
        return self._text.flush()

    def result(self) -> Answer:
        """Put the whole answer together, after the last step and `Engine.finish`."""
        marks = self._marks_ms
        marks["decode"] = self._elapsed_ms() - marks["first_token"]
        if self._text.is_thinking:
            self.forget_evidence()
        evidence = find_evidence(self._document, self._mass.on_tokens())
        marks["total"] = self._elapsed_ms()
        meter = self.state.meter
        return Answer(
            text=self._text.answer,
            finish_reason=self._finish_reason or "stop",
            evidence=evidence,
            budget=report_budget(meter, self._requested, self._applied),
            usage=Usage(
                document_tokens=self._document.num_tokens,
                question_tokens=self._num_question,
                completion_tokens=self._num_answer,
                kv_bytes_read=meter.bytes_read,
                kv_bytes_stored=self._document.kv_bytes,
                thinking_tokens=self._text.num_thinking,
            ),
            timings_ms={name: round(value, 3) for name, value in marks.items()},
            thinking=self._text.thinking,
        )

    @property
    def _num_answer(self) -> int:
        return len(self.ids) - self._num_question

    def _no_mass(self) -> AttentionMass:
        document = self._document
        return AttentionMass(document.num_tokens, document.num_sinks, self._model.device)

    def _elapsed_ms(self) -> float:
        return (time.perf_counter() - self._started_s) * 1e3
