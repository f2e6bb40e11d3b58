"""Choosing the next token, through transformers' logits processors."""

import math
from dataclasses import dataclass

import torch
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
    """

    max_tokens: int = 128
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    top_k: int = 0
    min_p: float = 0.0
    max_thinking_tokens: int = 2048


class Sampler:
    """Draws tokens for one answer; the processors see the question's and the answer's ids alone."""

    def __init__(self, sampling: Sampling, repetition_penalty: float, device: torch.device) -> None:
        self._greedy = sampling.temperature == 0.0
        self._processors = LogitsProcessorList()
        if repetition_penalty != 1.0:
            self._processors.append(RepetitionPenaltyLogitsProcessor(repetition_penalty))
        if not self._greedy:
            self._processors += _warpers(sampling)
        self._generator = torch.Generator(device)
        if sampling.seed is None:
            self._generator.seed()
        else:
            self._generator.manual_seed(sampling.seed)

    def next_token(self, ids: Tensor, logits: Tensor) -> int:
        """Draw from logits (vocabulary,), after `ids` (tokens,) of question and answer so far.

        Raises: NonFiniteNumbers if a logit is infinite or undefined.
        """
        highest = logits.max()  # undefined if any logit is
        scores = self._processors(ids[None], logits[None])  # type: ignore[arg-type]
        if self._greedy:
            token = scores.argmax(dim=-1)
        else:
            weights = torch.softmax(scores.nan_to_num(), dim=-1)  # what is undefined ends a GPU
            token = torch.multinomial(weights, 1, generator=self._generator)[0]
        drawn, top = torch.stack((token[0].double(), highest.double())).tolist()  # waits once
        if not math.isfinite(top):
            raise NonFiniteNumbers(
                "The model computed infinite or undefined logits for this question. If it runs in "
                "float16, another dtype may help (LECTERN_DTYPE)."
            )
        return int(drawn)


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
