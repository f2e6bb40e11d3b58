"""The table of an evaluation, read back from its result: which rows in which order."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from training.eval_tasks import (
    ARTICLE,
    HELD_OUT_NAME,
    OWN_LENGTH,
    PARAGRAPH,
    UNANSWERABLE,
    eval_tasks,
)

_OWN_NAME = "own"
_BAR_LENGTH = 16_384


@dataclass(frozen=True)
class ResultRow:
    """One row of the table.

    Attributes:
        length: of the documents, in tokens; `OWN_LENGTH` where they are as long as they are.
        refused: share of the questions that were answered with the refusal.
        interval, f1_interval: 95 %.
    """

    task: str
    length: int
    questions: int
    exact_match: float
    interval: tuple[float, float]
    refused: float
    f1: float
    f1_interval: tuple[float, float]

    def share(self) -> str:
        """Exact match with its interval."""
        return with_interval(self.exact_match, self.interval)

    def overlap(self) -> str:
        """F1 of the words with its interval."""
        return with_interval(self.f1, self.f1_interval)


def rows_of(result: dict[str, Any]) -> Iterator[ResultRow]:
    """All rows of a result: tasks with needles, natural questions, fictional documents."""
    known = [task.name for task in eval_tasks()] + [PARAGRAPH, ARTICLE]
    names = sorted(result["cells"], key=lambda name: (*known, name).index(name))
    for name in names:
        rows = result["cells"][name]
        for length in sorted(rows, key=length_of):
            yield _row(name, length_of(length), rows[length])


def has_every_task(rows: Iterable[ResultRow]) -> bool:
    """Whether the rows at 16K tokens are all of the table's, so that a share over them counts."""
    there = {row.task for row in rows if row.length == _BAR_LENGTH}
    return there >= {task.name for task in eval_tasks() if _BAR_LENGTH in task.lengths}


def false_refusals(rows: Iterable[ResultRow]) -> dict[str, Any]:
    """How often a question was refused that the document answers, over the tasks at 16K tokens.

    In all wordings, and apart in those that training used.
    """
    answerable = [row for row in rows if row.length == _BAR_LENGTH and row.task != UNANSWERABLE]
    trained = [row for row in answerable if HELD_OUT_NAME not in row.task]
    return {**_refusals(answerable), "trained_wordings": _refusals(trained)}


def _refusals(rows: Sequence[ResultRow]) -> dict[str, Any]:
    questions = sum(row.questions for row in rows)
    refused = sum(row.refused * row.questions for row in rows)
    return {"questions": questions, "share": round(refused / max(1, questions), 4)}


def length_name(length: int) -> str:
    """A length as the result names it."""
    return _OWN_NAME if length == OWN_LENGTH else str(length)


def length_of(name: str) -> int:
    """The length that a result's name means."""
    return OWN_LENGTH if name == _OWN_NAME else int(name)


def short_length(length: int) -> str:
    """A length for people: 16K, or that it is the document's own."""
    return _OWN_NAME if length == OWN_LENGTH else f"{length // 1024}K"


def with_interval(value: float, interval: tuple[float, float]) -> str:
    """A share and its bounds: 0.990 [0.964, 0.997]."""
    return f"{value:.3f} [{interval[0]:.3f}, {interval[1]:.3f}]"


def _row(task: str, length: int, row: dict[str, Any]) -> ResultRow:
    return ResultRow(
        task=task,
        length=length,
        questions=row["questions"],
        exact_match=row["exact_match"],
        interval=tuple(row["interval_95"]),
        refused=row["refused"],
        f1=row["f1"],
        f1_interval=tuple(row["f1_interval_95"]),
    )
