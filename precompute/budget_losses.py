"""How much each budget would lose: how far answers to probes agree with those at `exact`."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import torch
from torch import Tensor

from engine.attend.question import open_question
from engine.decode.packed_pass import PackedTokens, packed_forward
from engine.document.budget import BudgetLosses
from engine.document.cache import DocumentCache
from engine.model.loader import LoadedModel
from precompute.probes import Probe

TRIED = (0.4, 0.25, 0.2, 0.15, 0.1, 0.05)  # budgets, as far as there is anything to choose
# Probes that are answered right at `exact`: with fewer than the least, nothing is predicted.
LEAST_TELLING, ENOUGH_TELLING = 8, 16
MOST_LOSS = 0.1  # smaller budgets than one that loses more are not tried
ONE_SIDED_95 = 1.645  # standard errors above the mean


@dataclass(frozen=True)
class ExactTokens:
    """What a model says at `exact` in the first places of one probe's answer.

    Attributes:
        tokens: the likeliest ones (places,) int64.
        log_probabilities: theirs (places,) fp32, in nats.
        is_right: whether they are the probe's answer.
    """

    tokens: Tensor
    log_probabilities: Tensor
    is_right: bool = True

    @classmethod
    def of(cls, logits: Tensor, answer_ids: Tensor) -> "ExactTokens":
        """Take them from logits (places, vocabulary) of an answer (tokens,)."""
        best, tokens = logits.log_softmax(dim=-1).max(dim=-1)
        return cls(tokens, best, torch.equal(tokens.cpu(), answer_ids[: len(tokens)].cpu()))

    def loss(self, logits: Tensor) -> float:
        """One minus how far other logits (places, vocabulary) agree.

        They agree by the least share of a token's probability that is left, and not at all where
        another token is the likeliest.
        """
        if bool((logits.argmax(dim=-1) != self.tokens).any()):
            return 1.0
        found = logits.log_softmax(dim=-1).gather(1, self.tokens[:, None])[:, 0]
        return 1.0 - math.exp(min(0.0, float((found - self.log_probabilities).min())))


def upper_bound(losses: Sequence[float]) -> float:
    """The upper end of the one-sided 95 % interval of a mean loss, at most 1; two losses at least.

    A few probes that lose nothing say less than many: what is predicted is what a budget loses at
    most, as far as they can tell.
    """
    return min(1.0, fmean(losses) + ONE_SIDED_95 * stdev(losses) / math.sqrt(len(losses)))


def has_enough(exact: Sequence[ExactTokens]) -> bool:
    """Whether probes tell what budgets lose, or so few of them do that more would not help."""
    num_telling = sum(one.is_right for one in exact)
    return num_telling >= ENOUGH_TELLING or num_telling * 8 < len(exact)


def measure_losses(
    model: LoadedModel,
    document: DocumentCache,
    probes: Sequence[Probe],
    exact: Sequence[ExactTokens],
    check: Callable[[], None] = lambda: None,
) -> BudgetLosses:
    """Ask probes with their answers given at one budget after the other, the largest first.

    Only those that are answered right at `exact` have anything to lose.

    Args:
        document: calibrated.
        exact: what was said about each probe at `exact`.
        check: called before each pass; may raise to stop.
    """
    curves = document.curves
    telling = [pair for pair in zip(probes, exact, strict=True) if pair[1].is_right]
    if len(telling) < LEAST_TELLING:
        return BudgetLosses()
    probes, exact = [probe for probe, _ in telling], [said for _, said in telling]
    if not (curves.prefill.shares and curves.decode.shares):
        return BudgetLosses()
    most = min(curves.prefill.shares[-1], curves.decode.shares[-1])
    budgets: list[float] = []
    losses: list[float] = []
    for budget in TRIED:
        if not curves.floor <= budget < most:
            continue
        said = _ask(model, document, probes, budget, [len(one.tokens) for one in exact], check)
        found = [one.loss(logits) for one, logits in zip(exact, said, strict=True)]
        budgets.insert(0, budget)
        losses.insert(0, round(upper_bound(found), 6))
        if losses[0] > MOST_LOSS:
            break
    return BudgetLosses(tuple(budgets), tuple(losses))


def _ask(
    model: LoadedModel,
    document: DocumentCache,
    probes: Sequence[Probe],
    budget: float,
    places: Sequence[int],
    check: Callable[[], None],
) -> list[Tensor]:
    """Logits (places, vocabulary) of each probe's answer; all probes share their passes."""
    states = [open_question(document, budget) for _ in probes]
    found: list[list[Tensor]] = [[] for _ in probes]
    for place in range(max(places)):
        rows = [row for row, count in enumerate(places) if place < count]
        parts = []
        for row in rows:
            probe, state = probes[row], states[row]
            if place == 0:
                state.num_prefill = len(probe.question_ids)
            ids = probe.question_ids if place == 0 else probe.answer_ids[place - 1 : place]
            parts.append(PackedTokens(state, ids.to(model.device)))
        check()
        for row, logits in zip(rows, packed_forward(model.model, parts), strict=True):
            found[row].append(logits)
    return [torch.stack(logits) for logits in found]
