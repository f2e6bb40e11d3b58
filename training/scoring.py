"""Right or wrong: how answers are compared with the expected ones."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any
from zlib import crc32

from training.data.facts import REFUSAL, Question
from training.intervals import normal, wilson

_JOINTS = re.compile(r",? and |, ")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_MARKS = re.compile(r"[^\w\s]|_")


@dataclass(frozen=True)
class Score:
    """How one answer compares with the expected one.

    Attributes:
        right: whether they agree.
        refused: whether the answer says that the document does not say.
        f1: how far their words overlap, in [0, 1].
        loaded: share of the document cache's bytes that was read for a token, in (0, 1].
        asked: a checksum of question and expected answer: two methods were asked the same
            questions where their checksums agree.
    """

    right: bool
    refused: bool
    f1: float
    loaded: float = 1.0
    asked: int = 0


def score(question: Question, given: str, loaded: float = 1.0) -> Score:
    """Compare an answer with the expected one; of a list every value must be named, no other."""
    agrees = names_all if question.kind == "list" else is_exact
    return Score(
        right=agrees(given, question.answer),
        refused=is_exact(given, REFUSAL),
        f1=overlap(given, question.answer),
        loaded=loaded,
        asked=crc32(f"{question.text}\n{question.answer}".encode()),
    )


def is_exact(given: str, expected: str) -> bool:
    """Whether two answers agree but for case, whitespace and a final full stop."""
    return normalise(given) == normalise(expected)


def names_all(given: str, expected: str) -> bool:
    """Whether two enumerations name the same values, in whatever order."""
    one, other = (sorted(_JOINTS.split(normalise(text))) for text in (given, expected))
    return one == other


def overlap(given: str, expected: str) -> float:
    """F1 of the words, without case, marks and articles.

    Source: SQuAD's evaluation, https://arxiv.org/abs/1606.05250, section 6.1.
    """
    one, other = (_bare_words(text) for text in (given, expected))
    common = (Counter(one) & Counter(other)).total()
    if common == 0:
        return float(one == other)
    precision, recall = common / len(one), common / len(other)
    return 2 * precision * recall / (precision + recall)


def normalise(text: str) -> str:
    """Case, runs of whitespace and a final full stop do not count."""
    return " ".join(text.lower().split()).rstrip(".").rstrip()


def row_of(scores: Sequence[Score], num_documents: int) -> dict[str, Any]:
    """The scores of a task's documents of one length (two at least) as a JSON object.

    The scores by question stand in the order in which the questions were asked, which is the same
    for every model, head plan and budget: two results can be compared question by question.
    """
    num_right = sum(one.right for one in scores)
    return {
        "documents": num_documents,
        "questions": len(scores),
        "right": num_right,
        "exact_match": round(num_right / len(scores), 4),
        "interval_95": _rounded(wilson(num_right, len(scores))),
        "refused": round(fmean(one.refused for one in scores), 4),
        "f1": round(fmean(one.f1 for one in scores), 4),
        "f1_interval_95": _rounded(normal([one.f1 for one in scores])),
        "loaded": round(fmean(one.loaded for one in scores), 4),
        "by_question": {
            "right": [int(one.right) for one in scores],
            "refused": [int(one.refused) for one in scores],
            "f1": [round(one.f1, 3) for one in scores],
            "loaded": [round(one.loaded, 4) for one in scores],
            "asked": [one.asked for one in scores],
        },
    }


def _rounded(interval: tuple[float, float]) -> list[float]:
    return [round(bound, 4) for bound in interval]


def _bare_words(text: str) -> list[str]:
    return _ARTICLES.sub(" ", _MARKS.sub("", text.lower())).split()
