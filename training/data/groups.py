"""Needles of one fact or of several: near misses, one attribute of several subjects, several
attributes of one, pass phrases.
"""

from random import Random

from training.data import values
from training.data.attributes import Attribute, compose_attribute, compose_attribute_of
from training.data.entities import Entity, draw_entity, draw_key, draw_rival
from training.data.facts import (
    Chunk,
    Fact,
    Needle,
    ask,
    claim,
    clash,
    draw_attribute,
    draw_fact,
    draw_kind,
    introduce,
    near_miss,
    pronounce,
    refuse,
    state,
)
from training.data.lists import ask_for_attributes, ask_for_sentence, ask_for_several
from training.data.phrasing import StyleConfig
from training.data.split import draw_until
from training.data.templates import template_list
from training.data.text import capitalise


def make_single(rng: Random, style: StyleConfig) -> Needle:
    """One fact of its own; now and then a near miss is asked for, too."""
    fact = draw_fact(rng, style)
    questions, names = [ask(fact, rng, style, "single")], {fact.entity.name}
    if rng.random() < style.refusals:
        missing, name = near_miss(fact, [fact.attribute], [fact.entity.name], rng, style)
        questions.append(missing)
        names.add(name)
    if rng.random() < style.extras / 2:
        questions.append(ask_for_sentence(fact, rng, style))
    return Needle((state(fact, rng, style),), tuple(questions), claim(*names))


def make_near_misses(rng: Random, style: StyleConfig) -> Needle:
    """Two near namesakes with an attribute each: two questions have answers, two have none."""
    fact = draw_fact(rng, style)
    rival = draw_until(
        lambda one: one != fact.entity,
        lambda: draw_rival(fact.entity, rng, held_out=style.held_out),
    )
    other = draw_until(
        lambda one: not clash(fact.attribute, one), lambda: draw_attribute(rival.kind, rng, style)
    )
    second = Fact(rival, other, values.draw(other.value, rng, held_out=style.held_out))
    questions = (
        ask(fact, rng, style, "near miss"),
        ask(second, rng, style, "near miss"),
        refuse(fact.entity, other, rng, style),
        refuse(rival, fact.attribute, rng, style),
    )
    chunks = (state(fact, rng, style), state(second, rng, style))
    return Needle(chunks, questions, claim(fact.entity.name, rival.name))


def make_shaped(
    rng: Random, style: StyleConfig, size: int, key: str = "", value: str = "", near: float = 0.5
) -> Needle:
    """One attribute of several keys, keys and values of given shapes.

    Args:
        key: one of KEY_SHAPES, or a kind of name at random.
        value: a kind of value, or any at random.
        near: share of the keys that differ from another by a word or a character only.
    """
    name = draw_key(key, rng, held_out=style.held_out) if key else None
    entity = name or draw_entity(draw_kind(rng), rng, held_out=style.held_out)
    attribute = (
        compose_attribute_of(value, rng, style.lexicon)
        if value
        else compose_attribute(rng, style.lexicon)
    )
    drawn = values.draw(attribute.value, rng, held_out=style.held_out)
    return make_same_attribute(rng, style, size, Fact(entity, attribute, drawn), near)


def make_same_attribute(
    rng: Random, style: StyleConfig, size: int, first: Fact | None = None, near: float = 0.5
) -> Needle:
    """The same attribute of several subjects of one kind, near-equal names among them.

    Args:
        first: one of the facts; the others are its rivals.
        near: share of the rivals whose names differ from another by a word or a character only,
            as long as such names are left: a key of one digit has nine.
    """
    first = first or draw_fact(rng, style)
    facts, taken = [first], {first.entity.name}

    def peer() -> Entity:
        return draw_entity(first.entity.kind, rng, held_out=style.held_out)

    def rival() -> Entity:
        base = rng.choice(facts).entity
        return draw_rival(base, rng, held_out=style.held_out) if rng.random() < near else peer()

    while len(facts) < size:
        entity = draw_until(lambda one: one.name not in taken, rival, peer)
        taken.add(entity.name)
        value = values.draw(first.attribute.value, rng, held_out=style.held_out)
        facts.append(Fact(entity, first.attribute, value))
    chunks = _same_attribute_chunks(facts, rng, style)
    kind = "same attribute" if size <= 8 else "crowd"
    questions = [ask(fact, rng, style, kind) for fact in facts]
    claims = set(taken)
    if rng.random() < style.refusals * 1.5:
        for _ in range(1 + size // 8):
            fact = rng.choice(facts)
            missing, name = near_miss(fact, [first.attribute], list(taken), rng, style)
            questions.append(missing)
            claims.add(name)
    if rng.random() < style.extras:
        for _ in range(1 + size // 4):
            questions.append(ask_for_several(facts, min(size, rng.randint(2, 4)), rng, style))
    return Needle(tuple(chunks), tuple(questions), claim(*claims))


def _same_attribute_chunks(facts: list[Fact], rng: Random, style: StyleConfig) -> list[Chunk]:
    if len(facts) > 3 and rng.random() < 0.25:  # as a list or a table
        mark = rng.choice(("- {E}: {V}", "{E}: {V}", "| {E} | {V} |", "* {E} - {V}", "{E}, {V}"))
        name = rng.choice(facts[0].attribute.names)
        head = rng.choice((f"{name.title()}:", f"## {name.capitalize()}", f"List of {name}s"))
        if mark.startswith("|"):
            head = f"| name | {name} |\n|---|---|"
        rows = [mark.replace("{E}", fact.entity.name).replace("{V}", fact.value) for fact in facts]
        return [Chunk("\n".join([head, *rows]) + "\n", is_block=True)]
    return [state(fact, rng, style) for fact in facts]


def make_same_entity(rng: Random, style: StyleConfig, size: int, *, alike: bool = False) -> Needle:
    """Several attributes of one subject: apart, in one paragraph, or under a heading.

    Args:
        alike: the attributes are of two kinds of values only, and differ by a word.
    """
    entity = draw_entity(draw_kind(rng), rng, held_out=style.held_out)
    facts = _same_entity_facts(entity, size, alike, rng, style)
    questions, names = [ask(fact, rng, style, "same entity") for fact in facts], {entity.name}
    if rng.random() < style.refusals * 1.5:
        taken = [fact.attribute for fact in facts]
        missing, name = near_miss(rng.choice(facts), taken, [entity.name], rng, style)
        questions.append(missing)
        names.add(name)
    if rng.random() < style.extras and len(facts) > 1:
        questions.append(ask_for_attributes(facts, min(len(facts), rng.randint(2, 3)), rng, style))
    chunks = _same_entity_chunks(entity, facts, rng, style)
    return Needle(chunks, tuple(questions), claim(*names))


def _same_entity_facts(
    entity: Entity, size: int, alike: bool, rng: Random, style: StyleConfig
) -> list[Fact]:
    kinds = rng.sample(ALIKE_KINDS, 2)
    facts: list[Fact] = []
    for _ in range(size * 8):
        if alike:
            attribute = compose_attribute_of(rng.choice(kinds), rng, style.lexicon)
        else:
            attribute = draw_attribute(entity.kind, rng, style)
        if not any(clash(attribute, fact.attribute) for fact in facts):
            value = values.draw(attribute.value, rng, held_out=style.held_out)
            facts.append(Fact(entity, attribute, value))
        if len(facts) == size:
            break
    return facts


ALIKE_KINDS = ("code", "pin", "money", "date", "count", "person", "duration", "phone", "pair")


def _same_entity_chunks(
    entity: Entity, facts: list[Fact], rng: Random, style: StyleConfig
) -> tuple[Chunk, ...]:
    luck = rng.random()
    if luck < 0.6:
        return tuple(state(fact, rng, style) for fact in facts)
    pronouns = [pronounce(fact, rng, style) for fact in facts]
    if luck < 0.75:
        return (Chunk(" ".join([introduce(entity, rng), *pronouns])),)
    if luck < 0.9:
        heading = rng.choice(("## ", "### ", "", "# ", "3. ")) + capitalise(entity.name)
        return (Chunk(f"{heading}\n\n{' '.join(pronouns)}\n", is_block=True),)
    rows = [f"{rng.choice(fact.attribute.names)}: {fact.value}" for fact in facts]
    mark = rng.choice(("", "- ", "* "))
    lines = "\n".join(mark + capitalise(row) for row in rows)
    return (Chunk(f"{capitalise(entity.name)}\n{lines}\n", is_block=True),)


def make_pass_phrase(rng: Random, style: StyleConfig, num_words: int) -> Needle:
    """A long value that has to be copied word by word."""
    entity = draw_entity(draw_kind(rng), rng, held_out=style.held_out)
    name = rng.choice(template_list("needles", "pass phrase nouns"))
    value = values.pass_phrase(rng, num_words)
    fact = Fact(entity, Attribute((name,), "pair", (entity.kind,)), value)
    question = ask(fact, rng, style, "pass phrase")
    return Needle((state(fact, rng, style),), (question,), claim(entity.name))
