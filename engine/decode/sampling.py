"""Choosing the next token, through transformers' logits processors."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from common.errors import NonFiniteNumbers
from engine.config import AnswerMode


@dataclass(frozen=True)
class Sampling:
    """How an answer is drawn.

    Attributes:
        max_tokens: of the answer.
        temperature: 0 is greedy; then `top_p`, `top_k` and `min_p` mean nothing.
        top_p: share of probability that is drawn from.
        seed: None draws a fresh one.
        top_k: likeliest tokens that are drawn from; 0 for all.
        min_p: least probability, as a share of the likeliest token's.
        max_thinking_tokens: of what a model thinks before its answer; then it is made to answer.
        stop: strings at which the answer ends, none of them empty; they are no part of it.
        ignore_eos: go on to `max_tokens` whatever the model says, to measure.
        stop_repetition: whether an answer that repeats itself is ended.
        mode: "quote" for an answer that consists of passages of the document.
    """

    max_tokens: int = 128
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    top_k: int = 0
    min_p: float = 0.0
    max_thinking_tokens: int = 2048
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    stop_repetition: bool = True
    mode: AnswerMode = "free"


class TokenMask(Protocol):
    """Says before every token which ones may come next."""

    def allowed(self, answer: Sequence[int]) -> Tensor | None:
        """Return the tokens that may follow.

        Args:
            answer: all tokens of the answer so far.
        Returns: (tokens,) bool on the model's device with one true at least; ids that lie behind
            its end may not follow. None for all.
        """
        ...


class Sampler:
    """Draws tokens for one answer; the processors see the question's and the answer's ids alone.

    Args:
        repetition_penalty: on tokens of question and answer; 1 for none.
        device: of the logits.
        mask: which tokens may come; None for all.
    """

    def __init__(
        self,
        sampling: Sampling,
        repetition_penalty: float,
        device: torch.device,
        mask: TokenMask | None = None,
    ) -> None:
        self._device, self._mask = device, mask
        self._greedy = sampling.temperature == 0.0
        self._processors = LogitsProcessorList()
        self._has_penalty = repetition_penalty != 1.0
        if self._has_penalty:
            self._processors.append(RepetitionPenaltyLogitsProcessor(repetition_penalty))
        if not self._greedy:
            self._processors += _warpers(sampling)
        self._generator = torch.Generator(device)
        if sampling.seed is None:
            self._generator.seed()
        else:
            self._generator.manual_seed(sampling.seed)

    @property
    def needs_tokens(self) -> bool:
        """Whether a token cannot be drawn before the host knows those before it."""
        return self._has_penalty or self._mask is not None

    @property
    def takes_best(self) -> bool:
        """Whether the token with the highest logit is drawn, whatever came before."""
        return self.takes_best_allowed and self._mask is None

    @property
    def takes_best_allowed(self) -> bool:
        """Whether the token with the highest logit is drawn of those that may come."""
        return self._greedy and not self._processors

    def allowed(self, answer: Sequence[int], size: int) -> Tensor | None:
        """Return which of `size` tokens may come next, (size,) bool; None for all."""
        if self._mask is None or (allowed := self._mask.allowed(answer)) is None:
            return None
        return F.pad(allowed, (0, size - len(allowed)))

    def draw(self, question: Sequence[int], answer: Sequence[int], logits: Tensor) -> Tensor:
        """Draw a token without waiting for the device.

        Args:
            question, answer: token ids so far.
            logits: (vocabulary,) fp32.
        Returns: () int64 on the device.
        """
        if (allowed := self.allowed(answer, len(logits))) is not None:
            logits = logits.masked_fill(~allowed, -math.inf)
        scores = logits[None]
        if self._processors:
            seen = [*question, *answer] if self._has_penalty else []  # the others see logits alone
            ids = torch.tensor([seen], dtype=torch.int64).to(self._device)
            scores = self._processors(ids, scores)  # type: ignore[arg-type]
        if self._greedy:
            return scores[0].argmax()
        weights = torch.softmax(scores.nan_to_num(), dim=-1)  # what is undefined ends a GPU
        return torch.multinomial(weights, 1, generator=self._generator)[0, 0]


@dataclass(frozen=True)
class Draw:
    """What the next token of one answer is drawn by.

    Attributes:
        question, answer: token ids so far.
    """

    sampler: Sampler
    question: Sequence[int]
    answer: Sequence[int]


@dataclass(frozen=True)
class Drawn:
    """A token that was drawn.

    Attributes:
        log_probability: what the model gave it, in nats, before any mask or temperature.
    """

    token: int
    log_probability: float


class DrawnTokens:
    """Tokens that were drawn on a device, which may still be computing them.

    What is launched after they were drawn does not keep them waiting.

    Attributes:
        ids: (answers,) int64 on the device; any where a logit is infinite or undefined.
    """

    def __init__(self, ids: Tensor, highest: Tensor, log_probabilities: Tensor) -> None:
        self.ids = ids
        figures = torch.stack((ids.double(), highest.double(), log_probabilities.double()))
        self._figures = figures
        self._copied: torch.cuda.Event | None = None
        if figures.is_cuda:
            self._figures = torch.empty_like(figures, device="cpu", pin_memory=True)
            self._figures.copy_(figures, non_blocking=True)
            self._copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._copied.record()

    def fetch(self) -> list[Drawn | None]:
        """Wait for them; for each answer a token, None where a logit is infinite or so."""
        if self._copied is not None:
            self._copied.synchronize()
        return [
            Drawn(int(token), log_probability) if math.isfinite(top) else None
            for token, top, log_probability in zip(*self._figures.tolist(), strict=True)
        ]


def draw_tokens(draws: Sequence[Draw | None], logits: Tensor) -> DrawnTokens:
    """Draw the next tokens of several answers without waiting for the device.

    Args:
        draws: None for an answer whose token is known already.
        logits: (answers, vocabulary) fp32.
    """
    highest, best = logits.max(dim=1)  # undefined if any logit is
    masks: dict[int, Tensor] = {}  # of rows that take the best of what they may
    for row, draw in enumerate(draws):
        if draw is None or draw.sampler.takes_best:
            continue
        if not draw.sampler.takes_best_allowed:
            best[row] = draw.sampler.draw(draw.question, draw.answer, logits[row])
        elif (allowed := draw.sampler.allowed(draw.answer, logits.shape[1])) is not None:
            masks[row] = allowed
    if masks:  # a few launches for all of them, not a few for each
        rows = torch.tensor([*masks], pin_memory=logits.is_cuda)
        rows = rows.to(logits.device, non_blocking=True)
        masked = logits[rows].masked_fill_(~torch.stack([*masks.values()]), -math.inf)
        best[rows] = masked.argmax(dim=1)
    # As `logsumexp`, which would look for the highest ones once more.
    log_sums = (logits - highest[:, None]).exp_().sum(dim=1).log_() + highest
    chosen = logits.gather(1, best[:, None])[:, 0] - log_sums
    return DrawnTokens(best, highest, chosen)


def non_finite() -> NonFiniteNumbers:
    """The error of an answer whose logits are infinite or undefined."""
    return NonFiniteNumbers(
        "The model computed infinite or undefined logits for this question. If it runs in "
        "float16, another dtype may help (LECTERN_DTYPE)."
    )


def _warpers(sampling: Sampling) -> LogitsProcessorList:
    """In the order in which transformers applies them."""
    warpers = LogitsProcessorList([TemperatureLogitsWarper(sampling.temperature)])
    if sampling.top_k > 0:
        warpers.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1.0:
        warpers.append(TopPLogitsWarper(sampling.top_p))
    if sampling.min_p > 0.0:
        warpers.append(MinPLogitsWarper(sampling.min_p))
    return warpers
