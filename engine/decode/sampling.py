"""Choosing the next token, through transformers' logits processors."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopPLogitsWarper,
)

from common.errors import NonFiniteNumbers


@dataclass(frozen=True)
class Sampling:
    """How an answer is drawn; temperature 0 is greedy, `seed` None draws a fresh one."""

    max_tokens: int = 128
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None


class Sampler:
    """Draws tokens for one answer; the processors see the question's and the answer's ids alone."""

    def __init__(self, sampling: Sampling, repetition_penalty: float, device: torch.device) -> None:
        self._greedy = sampling.temperature == 0.0
        self._processors = LogitsProcessorList()
        if repetition_penalty != 1.0:
            self._processors.append(RepetitionPenaltyLogitsProcessor(repetition_penalty))
        if not self._greedy:
            self._processors.append(TemperatureLogitsWarper(sampling.temperature))
        if not self._greedy and sampling.top_p < 1.0:
            self._processors.append(TopPLogitsWarper(sampling.top_p))
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
