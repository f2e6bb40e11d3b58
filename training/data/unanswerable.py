"""Questions about what a document often speaks of, for what none of its statements tells.

A mill that is told to have forty sacks is asked for its wheels: a number stands beside it, and that
is no answer.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from training.data.attributes import Attribute
from training.data.entities import Entity
from training.data.facts import REFUSAL, Needle, Question, draw_attribute, refuse
from training.data.inventories import ask_how_many
from training.data.phrasing import StyleConfig
from training.data.templates import draw_word, word_list

_EVERY = 10  # questions of the document: one such question comes with them
_TRIES = 8  # to find each of them
_TRANSFERRED = frozenset(
    ("single", "same attribute", "same entity", "near miss", "scene", "predicate", "excerpt")
)  # kinds of questions that are asked of another thing, too
_CONTENT = re.compile(r"[a-z]{4,}")
_SLOT = re.compile(r"\{\w+\}")
_Names = Sequence[tuple[str, Needle]]  # each with the needle that asks about it


@dataclass(frozen=True)
class _Thing:
    """A name, the needles that speak of it and what they say, in lower case."""

    name: str
    needles: tuple[Needle, ...]
    told: str


def ask_unanswerable(
    needles: Sequence[Needle], named: Sequence[list[str]], rng: Random, style: StyleConfig
) -> list[Question]:
    """Unanswerable questions about the things that the needles claim and their questions name.

    Args:
        named: the names of each needle (training.data.distractors.names_of).
    """
    texts = [" ".join(chunk.text for chunk in needle.chunks).lower() for needle in needles]
    names = [
        (name, needle)
        for needle, own in zip(needles, named, strict=True)
        for name in own
        if name.lower() in needle.claims
    ]
    num_questions = sum(len(needle.questions) for needle in needles)
    wanted = int(num_questions / _EVERY + rng.random()) if names else 0
    found: dict[str, Question] = {}
    for _ in range(wanted):
        ask = rng.choice(_MANNERS)
        for _ in range(_TRIES):
            thing = _draw_thing(needles, texts, names, rng)
            if question := ask(thing, names, rng, style):
                found[question.text] = question
                break
    return list(found.values())


def _draw_thing(
    needles: Sequence[Needle], texts: Sequence[str], names: _Names, rng: Random
) -> _Thing:
    name = rng.choice(names)[0]
    spoken = [place for place, text in enumerate(texts) if name.lower() in text]
    return _Thing(
        name,
        tuple(needles[place] for place in spoken),
        " ".join(texts[place] for place in spoken),
    )


def _ask_for_count(
    thing: _Thing, names: _Names, rng: Random, style: StyleConfig
) -> Question | None:
    """How many of something that is not spoken of with it."""
    del names
    good = draw_word("goods", rng)
    if good[:-1] in thing.told:
        return None
    return ask_how_many(Entity("thing", thing.name), good, "", rng, style)


def _ask_for_attribute(
    thing: _Thing, names: _Names, rng: Random, style: StyleConfig
) -> Question | None:
    """An attribute of which no word is spoken with it."""
    del names
    kind = "thing" if thing.name.startswith("the ") else "key"
    attribute = draw_attribute(kind, rng, style)
    if any(word in thing.told for word in _words_of(attribute)):
        return None
    return refuse(Entity(kind, thing.name), attribute, rng, style)


def _ask_as_of_another(
    thing: _Thing, names: _Names, rng: Random, style: StyleConfig
) -> Question | None:
    """What is told of something else, if nothing of the kind is told of this one."""
    del style
    name, needle = rng.choice(names)
    fitting = [q for q in needle.questions if q.kind in _TRANSFERRED and name in q.text]
    if needle in thing.needles or not fitting:
        return None
    question = rng.choice(fitting)
    known = {_sort(one.answer) for own in thing.needles for one in own.questions}
    if _sort(question.answer) in known:
        return None
    text = question.text.replace(name, thing.name)
    return Question(text, REFUSAL, "unanswerable")


_MANNERS: tuple[Callable[[_Thing, _Names, Random, StyleConfig], Question | None], ...] = (
    _ask_for_count, _ask_for_attribute, _ask_for_attribute, _ask_as_of_another, _ask_as_of_another,
)  # fmt: skip


def _words_of(attribute: Attribute) -> set[str]:
    """Words that a statement of the attribute may be known by."""
    texts = " ".join((*attribute.names, *attribute.statements, *attribute.questions))
    return set(_CONTENT.findall(_SLOT.sub("", texts).lower())) or set(attribute.names)


def _sort(answer: str) -> str:
    """What an answer looks like: a time, a sum, a number, a name or words."""
    for sort, looks in _looks().items():
        if looks.search(answer):
            return sort
    return "words"


@cache
def _looks() -> Mapping[str, re.Pattern[str]]:
    months, currencies, numbers = (
        "|".join(word_list(name)) for name in ("months", "currencies", "small numbers")
    )
    return {
        "time": re.compile(rf"\d[:.]\d\d\b|o'clock|past|quarter|\b[ap]m\b|{months}"),
        "sum": re.compile(rf"[$€£]|{currencies}"),
        "number": re.compile(rf"\d|^(?:{numbers})\b"),
        "name": re.compile(r"^(?:the )?[A-Z]"),
    }
