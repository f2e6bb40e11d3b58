"""Questions about what a document often speaks of, for what none of its statements tells.

A mill that is told to have forty sacks is asked for its wheels: a number stands beside it, and that
is no answer.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from training.data import words
from training.data.attributes import Attribute
from training.data.entities import Entity
from training.data.facts import Plant, Question, draw_attribute, refuse
from training.data.inventories import ask_how_many
from training.data.speech import Voice
from training.data.wordings import REFUSAL

_EVERY = 10  # questions of the document: one such question comes with them
_TRIES = 8  # to find each of them
_TRANSFERRED = frozenset(
    ("single", "same attribute", "same entity", "near miss", "scene", "predicate", "excerpt")
)  # kinds of questions that are asked of another thing, too
_CONTENT = re.compile(r"[a-z]{4,}")
_SLOT = re.compile(r"\{\w+\}")
_Names = Sequence[tuple[str, Plant]]  # each with the plant that asks about it


@dataclass(frozen=True)
class _Thing:
    """A name, the plants that speak of it and what they say, in lower case."""

    name: str
    plants: tuple[Plant, ...]
    told: str


def ask_unsaid(
    plants: Sequence[Plant], named: Sequence[list[str]], rng: Random, voice: Voice
) -> list[Question]:
    """Unanswerable questions about the things that the plants claim and their questions name.

    Args:
        named: the names of each plant (training.data.mentions.names_of).
    """
    texts = [" ".join(chunk.text for chunk in plant.chunks).lower() for plant in plants]
    names = [
        (name, plant)
        for plant, own in zip(plants, named, strict=True)
        for name in own
        if name.lower() in plant.claims
    ]
    num_questions = sum(len(plant.questions) for plant in plants)
    wanted = int(num_questions / _EVERY + rng.random()) if names else 0
    found: dict[str, Question] = {}
    for _ in range(wanted):
        ask = rng.choice(_MANNERS)
        for _ in range(_TRIES):
            thing = _draw_thing(plants, texts, names, rng)
            if question := ask(thing, names, rng, voice):
                found[question.text] = question
                break
    return list(found.values())


def _draw_thing(
    plants: Sequence[Plant], texts: Sequence[str], names: _Names, rng: Random
) -> _Thing:
    name = rng.choice(names)[0]
    spoken = [place for place, text in enumerate(texts) if name.lower() in text]
    return _Thing(
        name,
        tuple(plants[place] for place in spoken),
        " ".join(texts[place] for place in spoken),
    )


def _ask_for_count(thing: _Thing, names: _Names, rng: Random, voice: Voice) -> Question | None:
    """How many of something that is not spoken of with it."""
    del names
    good = rng.choice(words.GOODS)
    if good[:-1] in thing.told:
        return None
    return ask_how_many(Entity("thing", thing.name), good, "", rng, voice)


def _ask_for_attribute(thing: _Thing, names: _Names, rng: Random, voice: Voice) -> Question | None:
    """An attribute of which no word is spoken with it."""
    del names
    kind = "thing" if thing.name.startswith("the ") else "key"
    attribute = draw_attribute(kind, rng, voice)
    if any(word in thing.told for word in _words_of(attribute)):
        return None
    return refuse(Entity(kind, thing.name), attribute, rng, voice)


def _ask_as_of_another(thing: _Thing, names: _Names, rng: Random, voice: Voice) -> Question | None:
    """What is told of something else, if nothing of the kind is told of this one."""
    del voice
    name, plant = rng.choice(names)
    fitting = [q for q in plant.questions if q.kind in _TRANSFERRED and name in q.text]
    if plant in thing.plants or not fitting:
        return None
    question = rng.choice(fitting)
    known = {_sort(one.answer) for own in thing.plants for one in own.questions}
    if _sort(question.answer) in known:
        return None
    text = question.text.replace(name, thing.name)
    return Question(text, REFUSAL, "unanswerable")


_MANNERS: tuple[Callable[[_Thing, _Names, Random, Voice], Question | None], ...] = (
    _ask_for_count, _ask_for_attribute, _ask_for_attribute, _ask_as_of_another, _ask_as_of_another,
)  # fmt: skip


def _words_of(attribute: Attribute) -> set[str]:
    """Words that a statement of the attribute may be known by."""
    texts = " ".join((*attribute.names, *attribute.statements, *attribute.questions))
    return set(_CONTENT.findall(_SLOT.sub("", texts).lower())) or set(attribute.names)


def _sort(answer: str) -> str:
    """What an answer looks like: a time, a sum, a number, a name or words."""
    for sort, looks in _LOOKS.items():
        if looks.search(answer):
            return sort
    return "words"


_LOOKS = {
    "time": re.compile(rf"\d[:.]\d\d\b|o'clock|past|quarter|\b[ap]m\b|{'|'.join(words.MONTHS)}"),
    "sum": re.compile(rf"[$€£]|{'|'.join(words.CURRENCIES)}"),
    "number": re.compile(rf"\d|^(?:{'|'.join(words.SMALL_NUMBERS)})\b"),
    "name": re.compile(r"^(?:the )?[A-Z]"),
}
