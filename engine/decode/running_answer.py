"""One question while it is being answered."""

import time

import torch
from torch import Tensor

from engine.attend.budget import report_budget
from engine.attend.evidence import AttentionMass, find_evidence
from engine.attend.question import open_question
from engine.decode.answer import Answer, Usage
from engine.decode.detokenizer import IncrementalDetokenizer
from engine.decode.sampling import Sampler, Sampling
from engine.document.cache import DocumentCache
from engine.model.loader import LoadedModel


class RunningAnswer:
    """One question between its forward passes, which `Engine.step` takes.

    Args:
        ids: the question's token ids (tokens,) int64, on the model's device.
        budget: share of the document cache's bytes that was asked for, in (0, 1].
        max_tokens: of the answer, as many as sampling and context allow.
        kernels: whether attention may go through Triton kernels on a GPU.

    Attributes:
        ids: of the question and of the answer so far (tokens,) int64.
        state: the question's own keys and values, and what it reads of the document.
        max_tokens: that question and answer have together at most.
    """

    def __init__(
        self,
        model: LoadedModel,
        document: DocumentCache,
        ids: Tensor,
        *,
        budget: float,
        sampling: Sampling,
        max_tokens: int,
        kernels: bool,
    ) -> None:
        self._started_s = time.perf_counter()
        self._model, self._document = model, document
        self._requested = budget
        self._applied = budget if budget >= 1.0 else max(budget, document.curves.floor)
        self._mass = AttentionMass(document.num_tokens, document.num_sinks, model.device)
        self.state = open_question(document, self._applied, self._mass, kernels=kernels)
        self._sampler = Sampler(sampling, model.repetition_penalty, model.device)
        self._detokenizer = IncrementalDetokenizer(model.tokenizer)
        self.ids, self._num_question = ids, len(ids)
        self.max_tokens = len(ids) + max_tokens
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

    def append_token(self, logits: Tensor) -> str:
        """Choose the token that follows from a forward pass.

        Args:
            logits: (vocabulary,) fp32.
        Returns: the text that is certain now; "" while a character is incomplete.
        """
        self._marks_ms.setdefault("question_prefill", self._elapsed_ms())
        token = self._sampler.next_token(self.ids, logits)
        self._marks_ms.setdefault("first_token", self._elapsed_ms())
        if token in self._model.eos_ids:
            self._finish_reason = "stop"
            return ""
        self.ids = torch.cat((self.ids, self.ids.new_tensor([token])))
        if len(self.ids) >= self.max_tokens:
            self._finish_reason = "length"
        return self._detokenizer.push(token)

    def flush(self) -> str:
        """Return the text that was held back for an incomplete character."""
        return self._detokenizer.flush()

    def result(self) -> Answer:
        """Put the whole answer together, after the last step and `Engine.finish`."""
        marks = self._marks_ms
        marks["decode"] = self._elapsed_ms() - marks["first_token"]
        evidence = find_evidence(self._document, self._mass.on_tokens())
        marks["total"] = self._elapsed_ms()
        meter = self.state.meter
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
        return len(self.ids) - self._num_question

    def _elapsed_ms(self) -> float:
        return (time.perf_counter() - self._started_s) * 1e3
