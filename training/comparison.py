"""Two results of the same questions beside each other: rows together, and paired differences."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from training.intervals import normal, paired_normal, paired_wilson, wilson
from training.report import length_name

Place = tuple[str, int]  # of a row: its task and length


@dataclass(frozen=True)
class Answers:
    """The answers of one method, question by question, over some rows of its result.

    Attributes:
        asked: checksums of the questions.
        right: whether each was answered right.
        f1: how far the words of each overlap with those expected, in [0, 1].
        loaded: share of the document cache's bytes that each read for a token, in (0, 1].
    """

    asked: tuple[int, ...]
    right: tuple[int, ...]
    f1: tuple[float, ...]
    loaded: tuple[float, ...]

    @property
    def share(self) -> float:
        """Share of right answers."""
        return fmean(self.right)

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of that share."""
        return wilson(sum(self.right), len(self.right))

    @property
    def f1_interval(self) -> tuple[float, float]:
        """The 95 % interval of the mean of F1."""
        return normal(self.f1)


@dataclass(frozen=True)
class PairedDifference:
    """How two methods differ on the same questions, the first less the second; 95 % intervals."""

    right: float
    right_interval: tuple[float, float]
    f1: float
    f1_interval: tuple[float, float]


def answers_of(result: Mapping[str, Any], places: Iterable[Place]) -> Answers | None:
    """The answers of some rows together; nothing where a row is missing or kept no questions."""
    rows = [_by_question(result, *place) for place in places]
    if any("asked" not in row for row in rows):
        return None
    return Answers(*(_joined(rows, name) for name in ("asked", "right", "f1", "loaded")))


def paired_difference(one: Answers, other: Answers) -> PairedDifference | None:
    """Compare two methods question by question; nothing if they were not asked the same ones."""
    if one.asked != other.asked:
        return None
    return PairedDifference(
        right=one.share - other.share,
        right_interval=paired_wilson(one.right, other.right),
        f1=fmean(one.f1) - fmean(other.f1),
        f1_interval=paired_normal(one.f1, other.f1),
    )


def _by_question(result: Mapping[str, Any], task: str, length: int) -> Mapping[str, Any]:
    row = result["cells"].get(task, {}).get(length_name(length), {})
    found: Mapping[str, Any] = row.get("by_question", {})
    return found


def _joined(rows: Sequence[Mapping[str, Any]], name: str) -> tuple[Any, ...]:
    return tuple(value for row in rows for value in row[name])
