"""Facts: what is stated, asked and refused; chunks, questions and needles."""

from dataclasses import dataclass
from random import Random

from training.data import values
from training.data.attributes import Attribute, attributes, compose_attribute
from training.data.entities import KINDS, Entity, draw_entity, draw_rival
from training.data.phrasing import (
    StyleConfig,
    ask_for_attribute,
    choose,
    say_question,
    state_attribute,
    state_attribute_of_it,
)
from training.data.split import draw_until, patterns_for
from training.data.templates import expand, template_list
from training.data.text import capitalise

REFUSAL = "The document does not say."


@dataclass(frozen=True)
class Chunk:
    """Text to be inserted: within a paragraph, or as lines of its own.

    Attributes:
        thread: chunks of one thread stand in the document in the order in which they were made;
            0 is no thread.
    """

    text: str
    is_block: bool = False
    thread: int = 0


@dataclass(frozen=True)
class Question:
    """A question, the answer that the document gives, and the kind it is counted under."""

    text: str
    answer: str
    kind: str


@dataclass(frozen=True)
class Needle:
    """Chunks of text and the questions about them.

    Attributes:
        claims: what no other needle of the document may speak of, lest a question have two answers.
    """

    chunks: tuple[Chunk, ...]
    questions: tuple[Question, ...]
    claims: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Fact:
    """A subject's attribute and its value."""

    entity: Entity
    attribute: Attribute
    value: str


def draw_attribute(kind: str, rng: Random, style: StyleConfig) -> Attribute:
    """Draw an attribute that fits a kind of entity; keys have composed ones only."""
    if kind == "key" or rng.random() < 0.35:
        return compose_attribute(rng, style.lexicon)
    known = attributes()
    return draw_until(
        lambda attribute: kind in attribute.subjects,
        lambda: known[int(rng.random() * len(known))],
    )


def draw_kind(rng: Random) -> str:
    """Draw a kind of entity."""
    return "key" if rng.random() < 0.16 else KINDS[int(rng.random() * len(KINDS))]


def draw_fact(rng: Random, style: StyleConfig) -> Fact:
    """Draw a subject, one of its attributes and a value."""
    entity = draw_entity(draw_kind(rng), rng, held_out=style.held_out)
    attribute = draw_attribute(entity.kind, rng, style)
    return Fact(entity, attribute, values.draw(attribute.value, rng, held_out=style.held_out))


def ask(fact: Fact, rng: Random, style: StyleConfig, kind: str) -> Question:
    """Ask for the fact's value, now and then by its unit: how many days, how many metres."""
    unit = values.counted_unit(fact.value)
    if unit and rng.random() < 0.15:
        slots = {"U": unit, "A": rng.choice(fact.attribute.names), "E": fact.entity.name}
        text = expand(choose(template_list("needles", "unit questions"), rng, style), rng, slots)
        return Question(say_question(text, rng, style), fact.value, kind)
    return Question(ask_for_attribute(fact.entity, fact.attribute, rng, style), fact.value, kind)


def claim(*names: str) -> frozenset[str]:
    """Claims on names, whatever their case."""
    return frozenset(name.lower() for name in names)


def refuse(entity: Entity, attribute: Attribute, rng: Random, style: StyleConfig) -> Question:
    """Ask what the document does not say."""
    return Question(ask_for_attribute(entity, attribute, rng, style), REFUSAL, "unanswerable")


def state(fact: Fact, rng: Random, style: StyleConfig) -> Chunk:
    """State the fact in a sentence, a line or a short paragraph."""
    text, luck = state_attribute(fact.entity, fact.attribute, fact.value, rng, style), rng.random()
    if luck < 0.75:
        return Chunk(text)
    if luck < 0.85:
        return Chunk(rng.choice(("- ", "* ", "", "1. ", "NOTE: ")) + text, is_block=True)
    return Chunk(f"{introduce(fact.entity, rng)} {pronounce(fact, rng, style)}")


def introduce(entity: Entity, rng: Random) -> str:
    """Turn to a subject without saying anything of it."""
    return capitalise(
        expand(rng.choice(template_list("wordings", "introductions")), rng, {"E": entity.name})
    )


def pronounce(fact: Fact, rng: Random, style: StyleConfig) -> str:
    """State a fact whose subject was named before."""
    own = patterns_for(fact.attribute.statements, style.wordings)
    if own and rng.random() < min(0.5, style.own):
        subject = (
            rng.choice(("this person", "our friend")) if fact.entity.kind == "person" else "it"
        )
        text = expand(rng.choice(own), rng, {"E": subject, "V": fact.value})
    else:
        text = state_attribute_of_it(fact.attribute, fact.value, rng, style)
    return capitalise(text) + "."


def clash(one: Attribute, other: Attribute) -> bool:
    """Whether a question for one might be taken as one for the other."""
    if set(one.names) & set(other.names):
        return True
    return any(one.names[0] in group and other.names[0] in group for group in _CONFUSABLE)


_CONFUSABLE = (
    {"price", "fee", "limit", "quota", "annual budget", "turnover", "salary"},
    {"office", "seat", "storage place", "venue", "destination", "neighbour", "birthplace"},
    {"keeper", "responsible role", "approver", "head", "owner", "mayor"},
    {"access code", "internal code", "form", "badge number", "serial number"},
    {"notice period", "processing time", "duration", "lifetime", "service interval"},
    {"number of members", "number of participants", "capacity", "limit", "quota"},
    {"deadline", "start date", "date of birth", "founding year"},
    {"length", "height", "width", "depth", "weight", "output", "distance"},
    {"phone number", "email address", "web page"},
    {"main product", "cargo"},
    {"profession", "field of study", "employer", "office"},
    {"sponsor", "employer", "approver", "head"},
    {"founder", "maker", "head", "owner"},
)


def near_miss(
    fact: Fact, taken: list[Attribute], names: list[str], rng: Random, style: StyleConfig
) -> tuple[Question, str]:
    """Ask for another attribute of the fact's subject, or for the same of a near namesake.

    Returns: the question, and the name that it asks about.
    """
    for _ in range(50):
        if rng.random() < 0.5:
            attribute = draw_attribute(fact.entity.kind, rng, style)
            if not any(clash(attribute, other) for other in taken):
                return refuse(fact.entity, attribute, rng, style), fact.entity.name
        else:
            rival = draw_rival(fact.entity, rng, held_out=style.held_out)
            if rival.name not in names:
                return refuse(rival, fact.attribute, rng, style), rival.name
    stranger = draw_entity("person", rng, held_out=style.held_out)
    return refuse(stranger, fact.attribute, rng, style), stranger.name
