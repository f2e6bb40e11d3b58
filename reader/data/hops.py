"""Plants whose question leads over a second fact: the attribute of an attribute, or "the same"."""

from random import Random

from reader.data import values, wordings
from reader.data.attributes import ATTRIBUTES, Attribute
from reader.data.entities import Entity, draw_entity
from reader.data.facts import (
    Chunk,
    Fact,
    Plant,
    Question,
    ask,
    claim,
    draw_attribute,
    draw_fact,
    draw_kind,
    state,
)
from reader.data.speech import (
    Voice,
    choose,
    frame_question,
    say_question,
    say_sentence,
)
from reader.data.template import expand

_BRIDGES = {"person": "person", "org": "body", "place": "site"}


def plant_two_hop(rng: Random, voice: Voice, size: int = 1) -> Plant:
    """Subjects, each with one named by a first fact and described by a second one.

    Args:
        size: how many such pairs share the two attributes.
    """
    first, second = _two_attributes(rng, voice)
    chunks: list[Chunk] = []
    questions: list[Question] = []
    taken: set[str] = set()
    while len(taken) < 2 * size:
        kind = rng.choice(first.subjects)
        entity = draw_entity(kind, rng, held_out=voice.held_out)
        name = values.draw(first.value, rng, held_out=voice.held_out)
        if {entity.name, name} & taken or entity.name == name:
            continue
        taken |= {entity.name, name}
        bridge = Entity(_BRIDGES[first.value], name)
        value = values.draw(second.value, rng, held_out=voice.held_out)
        one, two = Fact(entity, first, name), Fact(bridge, second, value)
        chunks += _two_chunks(one, two, rng, voice)
        questions.append(Question(_two_hop_text(one, two, rng, voice), value, "two hop"))
        questions += [ask(one, rng, voice, "single"), ask(two, rng, voice, "single")]
    return Plant(tuple(chunks), tuple(questions), claim(*taken))


def _two_attributes(rng: Random, voice: Voice) -> tuple[Attribute, Attribute]:
    first = rng.choice(
        [
            attribute
            for attribute in ATTRIBUTES
            if attribute.value == "person" or (attribute.value in _BRIDGES and rng.random() < 0.5)
        ]
    )
    while (second := draw_attribute(_BRIDGES[first.value], rng, voice)).names == first.names:
        pass
    return first, second


def _two_chunks(one: Fact, two: Fact, rng: Random, voice: Voice) -> list[Chunk]:
    chunks = [state(one, rng, voice), state(two, rng, voice)]
    rng.shuffle(chunks)
    if rng.random() < 0.3:  # the short way first: both facts side by side
        return [Chunk(" ".join(chunk.text for chunk in chunks))]
    return chunks


def _two_hop_text(one: Fact, two: Fact, rng: Random, voice: Voice) -> str:
    slots = {
        "A": rng.choice(two.attribute.names),
        "B": rng.choice(one.attribute.names),
        "E": one.entity.name,
    }
    if rng.random() < 0.5:
        pattern = choose(wordings.TWO_HOP_QUESTIONS, rng, voice)
    else:
        pattern = frame_question(choose(wordings.TWO_HOP_PHRASES, rng, voice), rng, voice)
    return say_question(expand(pattern, rng, slots), rng, voice)


def plant_same_as(rng: Random, voice: Voice) -> Plant:
    """A fact, and others that have the same value without its being said again."""
    fact = draw_fact(rng, voice)
    facts, taken, chunks = [fact], {fact.entity.name}, [state(fact, rng, voice)]
    for _ in range(rng.choice((1, 1, 2))):
        last = facts[-1]
        entity = draw_entity(draw_kind(rng), rng, held_out=voice.held_out)
        if entity.name in taken:
            continue
        taken.add(entity.name)
        slots = {
            "A": rng.choice(fact.attribute.names),
            "E": entity.name,
            "F": last.entity.name,
        }
        pattern = choose(wordings.SAME_AS_STATEMENTS, rng, voice)
        chunks.append(Chunk(say_sentence(expand(pattern, rng, slots), rng, voice)))
        generic = Attribute(fact.attribute.names, fact.attribute.value, fact.attribute.subjects)
        facts.append(Fact(entity, generic, fact.value))
    if rng.random() < 0.35:
        chunks = [Chunk(" ".join(chunk.text for chunk in rng.sample(chunks, len(chunks))))]
    questions = [
        ask(one, rng, voice, "same as" if place else "single") for place, one in enumerate(facts)
    ]
    return Plant(tuple(chunks), tuple(questions), claim(*taken))
