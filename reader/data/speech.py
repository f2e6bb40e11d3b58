"""Say a fact, ask for it: choose a wording and what surrounds it."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from reader.data.attributes import Attribute
from reader.data.entities import Entity
from reader.data.split import patterns_for
from reader.data.template import capitalise, expand, lower_first
from reader.data.wordings import (
    INNER_TAILS,
    QUESTION_HEADS,
    QUESTION_TAILS,
    QUESTIONS,
    STATEMENT_HEADS,
    STATEMENT_TAILS,
    STATEMENTS,
)


@dataclass(frozen=True)
class Voice:
    """How facts are worded, and for whom.

    Attributes:
        wordings: `train`, `held_out` or `all` patterns.
        held_out: names from the side of the split that is never trained on.
        refusals: how often a plant brings a question without an answer.
        extras: how often a crowd brings a question for two keys.
        own: how often an attribute's own wordings are preferred to the generic ones.
    """

    wordings: str = "train"
    held_out: bool = False
    refusals: float = 0.25
    extras: float = 0.15
    own: float = 0.6


def speak_statement(
    entity: Entity, attribute: Attribute, value: str, rng: Random, voice: Voice
) -> str:
    """State that the entity's attribute has this value: one sentence or note."""
    pattern = _pattern(attribute.statements, STATEMENTS, rng, voice)
    slots = {"E": entity.name, "A": rng.choice(attribute.names), "V": value}
    text = expand(pattern, rng, slots)
    if entity.kind == "person":
        text = text.replace(" its ", " the ")
    return say_sentence(text, rng, voice)


def speak_question(entity: Entity, attribute: Attribute, rng: Random, voice: Voice) -> str:
    """Ask for the entity's attribute."""
    pattern = _pattern(attribute.questions, QUESTIONS, rng, voice)
    slots = {"E": entity.name, "A": rng.choice(attribute.names)}
    return say_question(expand(pattern, rng, slots), rng, voice)


def say_sentence(text: str, rng: Random, voice: Voice) -> str:
    """Put a preamble or a tail around a statement now and then."""
    if rng.random() < 0.2:
        text = expand(_choose(STATEMENT_HEADS, rng, voice), rng, {}) + text
    if rng.random() < 0.18:
        text += expand(_choose(STATEMENT_TAILS, rng, voice), rng, {})
    return capitalise(text) + ("" if text.endswith(".") else ".")


def say_question(text: str, rng: Random, voice: Voice) -> str:
    """Put a preamble, a tail or politeness around a question now and then."""
    text, luck = capitalise(text), rng.random()
    if rng.random() < 0.08 and text[-1] in "?.":
        text = text[:-1] + expand(_choose(INNER_TAILS, rng, voice), rng, {}) + text[-1]
    if luck < 0.12:
        text = capitalise(expand(_choose(QUESTION_HEADS, rng, voice), rng, {}) + lower_first(text))
    elif luck < 0.22:
        text += expand(_choose(QUESTION_TAILS, rng, voice), rng, {})
    elif luck < 0.26:
        text = lower_first(text).rstrip("?.")
    return text


def join_words(items: Sequence[str]) -> str:
    """a, b and c."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def _pattern(own: tuple[str, ...], generic: tuple[str, ...], rng: Random, voice: Voice) -> str:
    mine = patterns_for(own, voice.wordings)
    if mine and rng.random() < voice.own:
        return mine[int(rng.random() * len(mine))]
    return _choose(generic, rng, voice)


def _choose(patterns: tuple[str, ...], rng: Random, voice: Voice) -> str:
    fitting = patterns_for(patterns, voice.wordings) or patterns
    return fitting[int(rng.random() * len(fitting))]
