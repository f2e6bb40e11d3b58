"""Answers that people gave, by what was asked for: one may stand in another's place."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from random import Random

Pair = tuple[str, str]
_ASKED = re.compile(
    r"\b(?:how (?:many|much|long|often|far|old)|(?:what|which) [a-z]+|who|whom|whose|when|where|why"
    r"|how|what|which)\b"
)
_LEAST = 20  # answers of a sort, so that none is drawn often
_LONGEST = 60  # characters


@dataclass(frozen=True)
class AnswerPool:
    """Answers by the sort of their question and by their looks."""

    answers: Mapping[str, tuple[str, ...]]

    def another(self, question: str, answer: str, rng: Random) -> str | None:
        """Another answer to such a question; nothing where few are known."""
        for sort in _sorts(question, answer):
            if sort in self.answers:
                return rng.choice(self.answers[sort])
        return None


def pool_of(pairs: Iterable[Pair]) -> AnswerPool:
    """Sort the answers of (question, answer) pairs."""
    found: dict[str, list[str]] = {}
    for question, answer in pairs:
        if len(answer) <= _LONGEST:
            for sort in _sorts(question, answer):
                found.setdefault(sort, []).append(answer)
    return AnswerPool({sort: tuple(all_) for sort, all_ in found.items() if len(all_) >= _LEAST})


def exchange_answers(
    text: str, pairs: tuple[Pair, ...], pool: AnswerPool, rng: Random, share: float
) -> tuple[str, tuple[Pair, ...]]:
    """Put others in the place of a share of the answers, wherever they stand."""
    others: dict[str, str] = {}
    for question, answer in pairs:
        if 2 < len(answer) <= _LONGEST and answer not in others and rng.random() < share:
            other = pool.another(question, answer, rng)
            if other and other not in text:
                others[answer] = other
    if not others:
        return text, pairs
    longest_first = sorted(others.items(), key=lambda item: -len(item[0]))

    def exchange(told: str) -> str:
        for number, (answer, _) in enumerate(longest_first):
            told = _put(told, answer, f"\0{number}\0")
        for number, (_, other) in enumerate(longest_first):
            told = told.replace(f"\0{number}\0", other)
        return told

    return exchange(text), tuple((exchange(asked), exchange(answer)) for asked, answer in pairs)


def _put(text: str, old: str, new: str) -> str:
    """Replace whole words only; this needs no pattern to be compiled for each paragraph."""
    first, *others = text.split(old)
    parts = [first]
    for before, after in pairwise([first, *others]):
        is_whole = not (before[-1:].isalnum() or after[:1].isalnum())
        parts += [new if is_whole else old, after]
    return "".join(parts)


def _sorts(question: str, answer: str) -> tuple[str, str]:
    """The finer and the coarser sort: `what country`, or only `what`; and the answer's looks."""
    match = _ASKED.search(question.lower())
    asked = match.group() if match else ""
    looks = f"{min(4, answer.count(' '))} {answer[:1].isupper()} {answer[:1].isdigit()}"
    return f"{asked} {looks}", f"{asked.split(' ')[0]} {looks}"
