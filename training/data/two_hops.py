"""Needles whose question leads over a second fact: the attribute of an attribute, or "the same"."""

from dataclasses import dataclass
from random import Random

from training.data import values
from training.data.attributes import Attribute, attributes
from training.data.entities import Entity, draw_entity
from training.data.facts import (
    Chunk,
    Fact,
    Needle,
    Question,
    ask,
    claim,
    clash,
    draw_attribute,
    draw_fact,
    draw_kind,
    state,
)
from training.data.phrasing import (
    StyleConfig,
    choose,
    frame_question,
    say_question,
    say_sentence,
)
from training.data.split import draw_until
from training.data.templates import expand, template_list

_BRIDGES = {"person": "person", "org": "body", "place": "site"}


@dataclass(frozen=True)
class HopShape:
    """How many two-hop facts stand together.

    Attributes:
        subjects: how many lead by a first attribute to somebody or something.
        firsts: how many first attributes they have, in turn.
        seconds: attributes of each of those, the same for all.
        strays: bearers of the second attributes to whom no subject leads.
        asked_alone: how often a fact is asked for by itself, too.
    """

    subjects: int = 1
    firsts: int = 1
    seconds: int = 1
    strays: int = 0
    asked_alone: float = 1.0


def make_two_hop(rng: Random, style: StyleConfig, shape: HopShape = HopShape()) -> Needle:
    """Subjects, each with one named by a first fact and described by further ones."""
    first, seconds = _two_attributes(rng, style, shape.seconds)
    firsts = _alike(first, shape.firsts, rng)
    chunks: list[Chunk] = []
    questions: list[Question] = []
    taken: set[str] = set()
    for number in range(shape.subjects + shape.strays):
        one = _draw_link(firsts[number % len(firsts)], taken, rng, style)
        taken |= {one.entity.name, one.value}
        bridge = Entity(_BRIDGES[first.value], one.value)
        twos = [
            Fact(bridge, second, values.draw(second.value, rng, held_out=style.held_out))
            for second in seconds
        ]
        if number >= shape.subjects:
            chunks += [state(two, rng, style) for two in twos]
            continue
        chunks += _hop_chunks(one, twos, rng, style)
        questions += [
            Question(_two_hop_text(one, two, rng, style), two.value, "two hop") for two in twos
        ]
        questions += [
            ask(fact, rng, style, "single")
            for fact in (one, *twos)
            if rng.random() < shape.asked_alone
        ]
    return Needle(tuple(chunks), tuple(questions), claim(*taken))


def _draw_link(first: Attribute, taken: set[str], rng: Random, style: StyleConfig) -> Fact:
    """A subject and whom or what it leads to, both new."""

    def draw() -> Fact:
        entity = draw_entity(rng.choice(first.subjects), rng, held_out=style.held_out)
        return Fact(entity, first, values.draw(first.value, rng, held_out=style.held_out))

    return draw_until(
        lambda one: not {one.entity.name, one.value} & taken and one.entity.name != one.value, draw
    )


def _two_attributes(
    rng: Random, style: StyleConfig, num_seconds: int
) -> tuple[Attribute, list[Attribute]]:
    first = rng.choice(
        [
            attribute
            for attribute in attributes()
            if attribute.value == "person" or (attribute.value in _BRIDGES and rng.random() < 0.5)
        ]
    )
    seconds: list[Attribute] = []
    for _ in range(num_seconds):
        second = draw_until(
            lambda one: one.names != first.names and not any(clash(one, old) for old in seconds),
            lambda: draw_attribute(_BRIDGES[first.value], rng, style),
        )
        seconds.append(second)
    return first, seconds


def _alike(first: Attribute, count: int, rng: Random) -> list[Attribute]:
    """A first attribute and others that lead to the same sort of somebody or something."""
    if count == 1:
        return [first]
    others = [one for one in attributes() if one.value == first.value and one != first]
    return [first, *rng.sample(others, min(count - 1, len(others)))]


def _hop_chunks(one: Fact, twos: list[Fact], rng: Random, style: StyleConfig) -> list[Chunk]:
    chunks = [state(fact, rng, style) for fact in (one, *twos)]
    rng.shuffle(chunks)
    if rng.random() < 0.3:  # the short way first: all facts side by side
        return [Chunk(" ".join(chunk.text for chunk in chunks))]
    return chunks


def _two_hop_text(one: Fact, two: Fact, rng: Random, style: StyleConfig) -> str:
    slots = {
        "A": rng.choice(two.attribute.names),
        "B": rng.choice(one.attribute.names),
        "E": one.entity.name,
    }
    if rng.random() < 0.5:
        pattern = choose(template_list("wordings", "two hop questions"), rng, style)
    else:
        pattern = frame_question(
            choose(template_list("wordings", "two hop phrases"), rng, style), rng, style
        )
    return say_question(expand(pattern, rng, slots), rng, style)


def make_same_as(rng: Random, style: StyleConfig) -> Needle:
    """A fact, and others that have the same value without its being said again."""
    fact = draw_fact(rng, style)
    facts, taken, chunks = [fact], {fact.entity.name}, [state(fact, rng, style)]
    for _ in range(rng.choice((1, 1, 2))):
        last = facts[-1]
        entity = draw_entity(draw_kind(rng), rng, held_out=style.held_out)
        if entity.name in taken:
            continue
        taken.add(entity.name)
        slots = {
            "A": rng.choice(fact.attribute.names),
            "E": entity.name,
            "F": last.entity.name,
        }
        pattern = choose(template_list("wordings", "same as statements"), rng, style)
        chunks.append(Chunk(say_sentence(expand(pattern, rng, slots), rng, style)))
        generic = Attribute(fact.attribute.names, fact.attribute.value, fact.attribute.subjects)
        facts.append(Fact(entity, generic, fact.value))
    if rng.random() < 0.35:
        chunks = [Chunk(" ".join(chunk.text for chunk in rng.sample(chunks, len(chunks))))]
    questions = [
        ask(one, rng, style, "same as" if place else "single") for place, one in enumerate(facts)
    ]
    return Needle(tuple(chunks), tuple(questions), claim(*taken))
