"""What a method of choosing heads does, and how its scores become a head plan.

A method scores heads and, where it has rules of its own, chooses among them. Counts, ties and the
plan itself are the same for all methods and are settled here.
"""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from common.errors import InvalidInput
from engine.model.head_plan import ALL, HeadPlan
from engine.model.loader import LoadedModel
from precompute.induction import measure_induction, most_ids

LEAST_IDS = 8  # random tokens, fewer of which say little about a head
Scores = tuple[tuple[float, ...], ...]  # per layer, per KV head
Heads = tuple[tuple[bool, ...], ...]  # per layer, per KV head: whether it is a retrieval head

# Told steps done and their total; may raise to stop the work.
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Streaming:
    """What a streaming head keeps, one for all methods; see `HeadPlan`."""

    num_sinks: int = 64
    window: int = 256
    compensation: bool = True
    window_share: float = 0.0


@dataclass(frozen=True)
class Measure:
    """What a method found out about a model's KV heads.

    Attributes:
        scores: the higher, the more a head needs the whole document.
        settings: with what they were measured, JSON-like.
        others: further scores by name, of the same shape.
        ties: scores of the same shape that part heads of equal scores, the higher first; None
            leaves them in layer order.
    """

    scores: Scores
    settings: Mapping[str, Any] = field(default_factory=dict)
    others: Mapping[str, Scores] = field(default_factory=dict)
    ties: Scores | None = None


class HeadMethod(ABC):
    """A way to tell retrieval heads from streaming heads; a method need only score."""

    @abstractmethod
    def measure(self, model: LoadedModel, progress: Progress) -> Measure:
        """Score every KV head of a model."""

    def choose(self, measure: Measure, ratio: float) -> Heads:
        """Make a share of the heads, rounded up, retrieval heads: those of the highest scores."""
        return top_heads(measure.scores, ratio, measure.ties)


def make_plan(
    name: str,
    method: HeadMethod,
    measure: Measure,
    ratio: float,
    *,
    model: LoadedModel,
    streaming: Streaming = Streaming(),
) -> HeadPlan:
    """Choose heads by what was measured, and write down how.

    Heads of equal scores are parted by their induction scores where that decides which are chosen.

    Args:
        name: the method's file name.
        ratio: retrieval heads over all KV heads, in [0, 1].
    Raises: InvalidInput if the ratio is no share.
    """
    if not 0 <= ratio <= 1:
        raise InvalidInput(f"A ratio of retrieval heads lies between 0 and 1, not at {ratio}.")
    settings: dict[str, Any] = {}
    if ties_decide(method, measure, ratio):
        measure = replace(measure, ties=induction_ties(model))
        settings["ties"] = "layer order" if measure.ties is None else "induction"
    return HeadPlan(
        method=name,
        retrieval=method.choose(measure, ratio),
        num_sinks=streaming.num_sinks,
        window=streaming.window,
        window_share=streaming.window_share,
        compensation=streaming.compensation,
        scores=measure.scores,
        settings={**measure.settings, **_as_lists(measure.others), **settings, "ratio": ratio},
        model=model.weights,
    )


def _as_lists(scores: Mapping[str, Scores]) -> dict[str, list[list[float]]]:
    """As JSON would give them back."""
    return {name: [list(layer) for layer in layers] for name, layers in scores.items()}


def refuse_plan(model: LoadedModel) -> None:
    """Refuse to measure a model whose heads a plan has reordered: scores would be of other heads.

    Raises: InvalidInput.
    """
    if model.plan.ratio < 1:
        raise InvalidInput(
            f"Heads are measured in a model without a head plan: load it with heads='{ALL}'."
        )


def num_chosen(total: int, ratio: float) -> int:
    """A share of a number, rounded up; 0.07 of 100 is 7 whatever floating point makes of it."""
    return math.ceil(round(ratio * total, 9))


def ties_decide(method: HeadMethod, measure: Measure, ratio: float) -> bool:
    """Whether heads of equal scores are on both sides of the cut, so that ties decide."""
    order = _numbered(measure.scores)
    backwards = tuple(tuple(-number for number in layer) for layer in order)
    chosen = (method.choose(replace(measure, ties=ties), ratio) for ties in (order, backwards))
    return len(set(chosen)) > 1


def induction_ties(model: LoadedModel) -> Scores | None:
    """Induction scores to break ties by; None where a model has too few tokens to measure them.

    Raises: InvalidInput if the model was loaded with a head plan.
    """
    refuse_plan(model)
    num_ids = most_ids(model)
    if num_ids < LEAST_IDS:
        return None
    return tuple(measure_induction(model, num_ids).induction)


def top_heads(scores: Scores, ratio: float, ties: Scores | None = None) -> Heads:
    """A share of the heads, rounded up: the highest; `ties` as of `Measure`."""
    flat = [score for layer in scores for score in layer]
    order = ranked(flat, None if ties is None else [tie for layer in ties for tie in layer])
    return chosen_heads(scores, order[: num_chosen(len(flat), ratio)])


def ranked(values: Sequence[float], ties: Sequence[float] | None = None) -> list[int]:
    """Indices from the highest value down.

    Args:
        ties: of equal values the one with the higher of these comes first; then the first one.
    """
    tie = ties or [0.0] * len(values)
    return sorted(range(len(values)), key=lambda index: (-values[index], -tie[index], index))


def _numbered(scores: Scores) -> Scores:
    """Each head's place in layer order, negated."""
    starts = itertools.accumulate((len(layer) for layer in scores), initial=0)
    return tuple(
        tuple(-float(start + head) for head in range(len(layer)))
        for layer, start in zip(scores, starts, strict=False)
    )


def chosen_heads(like: Scores, indices: Sequence[int]) -> Heads:
    """Heads of the shape of `like`, of which those at layer-major `indices` are retrieval heads."""
    chosen, first, heads = set(indices), 0, []
    for layer in like:
        heads.append(tuple(first + head in chosen for head in range(len(layer))))
        first += len(layer)
    return tuple(heads)
