"""Excerpts: a few sentences told in several ways, with questions that use other words.

An excerpt is a block of lines in one of this folder's text files:

    X part: drain plug | hub nut    a slot of the excerpt's own: one of these
    K part                          the slot that tells one such excerpt from another
    S tighten the {part} to {tq:measure} [crosswise|in two passes]
    Q How hard do I screw in the {part}?=tq
    N What size of wrench fits the {part}?

`S` tells all of it; a slot's kind (training.data.values, training.data.rules) stands where it first
occurs. `Q` ends in the slot that answers it, or in text with slots. `N` is answered by no telling.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from training.data.split import is_held_out
from training.data.template import slots_of

_SLOT = re.compile(r"\{(\w+):(\w+)\}")
_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Excerpt:
    """What a few sentences tell, in several wordings, and what may be asked of it.

    Attributes:
        tellings: wordings with slots.
        questions: (wording, template of the answer).
        unsaid: questions that no telling answers.
        kinds: kind by slot name, without the slots of its own.
        options: what a slot of its own may be, by slot name.
        key: the slot that tells one such excerpt from another, if there is any.
    """

    tellings: tuple[str, ...]
    questions: tuple[tuple[str, str], ...]
    unsaid: tuple[str, ...]
    kinds: dict[str, str]
    options: dict[str, tuple[str, ...]]
    key: str = ""

    @property
    def slots(self) -> frozenset[str]:
        """Names of all slots."""
        return frozenset((*self.kinds, *self.options))


@lru_cache(maxsize=2)
def excerpts(*, held_out: bool) -> tuple[Excerpt, ...]:
    """All excerpts on one side of the split (by their first telling), read once."""
    blocks = [
        block
        for file in sorted(_FOLDER.glob("*.txt"))
        for block in file.read_text(encoding="utf-8").strip().split("\n\n")
    ]
    found = map(parse, blocks)
    return tuple(one for one in found if is_held_out(one.tellings[0]) == held_out)


def parse(block: str) -> Excerpt:
    """Read the lines of one excerpt.

    Raises: ValueError if a line is none of the five sorts, a slot has no kind or two, a telling
        lacks the key, or a question has no answer with a slot in it.
    """
    lines: dict[str, list[str]] = {sort: [] for sort in "XKSQN"}
    for line in block.splitlines():
        sort, _, text = line.partition(" ")
        if sort not in lines or not text.strip():
            raise ValueError(f"no line of an excerpt: {line!r}")
        lines[sort].append(text.strip())
    told = "\n".join(lines["S"])
    excerpt = Excerpt(
        tellings=tuple(_SLOT.sub(r"{\1}", telling) for telling in lines["S"]),
        questions=tuple(map(_parse_question, lines["Q"])),
        unsaid=tuple(lines["N"]),
        kinds=dict(_SLOT.findall(told)),
        options=dict(map(_parse_options, lines["X"])),
        key=lines["K"][0] if lines["K"] else "",
    )
    _check(excerpt, _SLOT.findall(told))
    return excerpt


def _parse_question(text: str) -> tuple[str, str]:
    question, _, answer = text.rpartition("=")
    return question.strip(), answer if "{" in answer else f"{{{answer}}}"


def _parse_options(text: str) -> tuple[str, tuple[str, ...]]:
    name, _, options = text.partition(":")
    return name.strip(), tuple(option.strip() for option in options.split("|"))


def _check(excerpt: Excerpt, declared: list[tuple[str, str]]) -> None:
    problems = [
        *(["no telling"] if not excerpt.tellings else []),
        *(f"{name} has two kinds" for name, kind in declared if excerpt.kinds[name] != kind),
        *(f"{name} is declared twice" for name in excerpt.kinds if name in excerpt.options),
        *(f"{name} has one option" for name, many in excerpt.options.items() if len(many) < 2),
        *_unknown_slots(excerpt),
        *_idle_questions(excerpt),
    ]
    if problems:
        raise ValueError("; ".join(problems))


def _unknown_slots(excerpt: Excerpt) -> list[str]:
    asked = [text for pair in excerpt.questions for text in pair]
    texts = (*excerpt.tellings, *excerpt.unsaid, *asked)
    key = frozenset({excerpt.key} - {""})
    return [
        *(f"unknown slot in {text!r}" for text in texts if slots_of(text) - excerpt.slots),
        *(f"no key in {text!r}" for text in excerpt.tellings if not key <= slots_of(text)),
    ]


def _idle_questions(excerpt: Excerpt) -> list[str]:
    pairs = [(text, slots_of(text), slots_of(answer)) for text, answer in excerpt.questions]
    return [
        *(f"no slot answers {text!r}" for text, _, answer in pairs if not answer),
        *(f"{text!r} gives its answer away" for text, asked, answer in pairs if asked & answer),
    ]
