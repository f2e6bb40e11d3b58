"""Plants of one fact or of a group of facts: crowds, portraits, near misses, pass phrases."""

from random import Random

from training.data import values
from training.data.attributes import Attribute, attribute_of, made_attribute
from training.data.draws import draw_until
from training.data.entities import Entity, draw_entity, draw_key, draw_rival
from training.data.facts import (
    Chunk,
    Fact,
    Plant,
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
from training.data.several import ask_for_attributes, ask_for_sentence, ask_for_several
from training.data.speech import Voice
from training.data.template import capitalise


def plant_single(rng: Random, voice: Voice) -> Plant:
    """One fact of its own; now and then a near miss is asked for, too."""
    fact = draw_fact(rng, voice)
    questions, names = [ask(fact, rng, voice, "single")], {fact.entity.name}
    if rng.random() < voice.refusals:
        missing, name = near_miss(fact, [fact.attribute], [fact.entity.name], rng, voice)
        questions.append(missing)
        names.add(name)
    if rng.random() < voice.extras / 2:
        questions.append(ask_for_sentence(fact, rng, voice))
    return Plant((state(fact, rng, voice),), tuple(questions), claim(*names))


def plant_near_misses(rng: Random, voice: Voice) -> Plant:
    """Two near namesakes with an attribute each: two questions have answers, two have none."""
    fact = draw_fact(rng, voice)
    rival = draw_until(
        lambda one: one != fact.entity,
        lambda: draw_rival(fact.entity, rng, held_out=voice.held_out),
    )
    other = draw_until(
        lambda one: not clash(fact.attribute, one), lambda: draw_attribute(rival.kind, rng, voice)
    )
    second = Fact(rival, other, values.draw(other.value, rng, held_out=voice.held_out))
    questions = (
        ask(fact, rng, voice, "near miss"),
        ask(second, rng, voice, "near miss"),
        refuse(fact.entity, other, rng, voice),
        refuse(rival, fact.attribute, rng, voice),
    )
    chunks = (state(fact, rng, voice), state(second, rng, voice))
    return Plant(chunks, questions, claim(fact.entity.name, rival.name))


def plant_shaped(
    rng: Random, voice: Voice, size: int, key: str = "", value: str = "", near: float = 0.5
) -> Plant:
    """A crowd whose keys and values are of given shapes.

    Args:
        key: one of KEY_SHAPES, or a kind of name at random.
        value: a kind of value, or any at random.
        near: share of the keys that differ from another by a word or a character only.
    """
    name = draw_key(key, rng, held_out=voice.held_out) if key else None
    entity = name or draw_entity(draw_kind(rng), rng, held_out=voice.held_out)
    attribute = (
        attribute_of(value, rng, voice.lexicon) if value else made_attribute(rng, voice.lexicon)
    )
    drawn = values.draw(attribute.value, rng, held_out=voice.held_out)
    return plant_crowd(rng, voice, size, Fact(entity, attribute, drawn), near)


def plant_crowd(
    rng: Random, voice: Voice, size: int, first: Fact | None = None, near: float = 0.5
) -> Plant:
    """The same attribute of several subjects of one kind, near-equal names among them.

    Args:
        first: one of the facts; the others are its rivals.
        near: share of the rivals whose names differ from another by a word or a character only,
            as long as such names are left: a key of one digit has nine.
    """
    first = first or draw_fact(rng, voice)
    facts, taken = [first], {first.entity.name}

    def peer() -> Entity:
        return draw_entity(first.entity.kind, rng, held_out=voice.held_out)

    def rival() -> Entity:
        base = rng.choice(facts).entity
        return draw_rival(base, rng, held_out=voice.held_out) if rng.random() < near else peer()

    while len(facts) < size:
        entity = draw_until(lambda one: one.name not in taken, rival, peer)
        taken.add(entity.name)
        value = values.draw(first.attribute.value, rng, held_out=voice.held_out)
        facts.append(Fact(entity, first.attribute, value))
    chunks = _crowd_chunks(facts, rng, voice)
    kind = "same attribute" if size <= 8 else "crowd"
    questions = [ask(fact, rng, voice, kind) for fact in facts]
    claims = set(taken)
    if rng.random() < voice.refusals * 1.5:
        for _ in range(1 + size // 8):
            fact = rng.choice(facts)
            missing, name = near_miss(fact, [first.attribute], list(taken), rng, voice)
            questions.append(missing)
            claims.add(name)
    if rng.random() < voice.extras:
        for _ in range(1 + size // 4):
            questions.append(ask_for_several(facts, min(size, rng.randint(2, 4)), rng, voice))
    return Plant(tuple(chunks), tuple(questions), claim(*claims))


def _crowd_chunks(facts: list[Fact], rng: Random, voice: Voice) -> list[Chunk]:
    if len(facts) > 3 and rng.random() < 0.25:  # the crowd as a list or a table
        mark = rng.choice(("- {E}: {V}", "{E}: {V}", "| {E} | {V} |", "* {E} - {V}", "{E}, {V}"))
        name = rng.choice(facts[0].attribute.names)
        head = rng.choice((f"{name.title()}:", f"## {name.capitalize()}", f"List of {name}s"))
        if mark.startswith("|"):
            head = f"| name | {name} |\n|---|---|"
        rows = [mark.replace("{E}", fact.entity.name).replace("{V}", fact.value) for fact in facts]
        return [Chunk("\n".join([head, *rows]) + "\n", is_block=True)]
    return [state(fact, rng, voice) for fact in facts]


def plant_portrait(rng: Random, voice: Voice, size: int, *, alike: bool = False) -> Plant:
    """Several attributes of one subject: apart, in one paragraph, or under a heading.

    Args:
        alike: the attributes are of two kinds of values only, and differ by a word.
    """
    entity = draw_entity(draw_kind(rng), rng, held_out=voice.held_out)
    facts = _portrait_facts(entity, size, alike, rng, voice)
    questions, names = [ask(fact, rng, voice, "same entity") for fact in facts], {entity.name}
    if rng.random() < voice.refusals * 1.5:
        taken = [fact.attribute for fact in facts]
        missing, name = near_miss(rng.choice(facts), taken, [entity.name], rng, voice)
        questions.append(missing)
        names.add(name)
    if rng.random() < voice.extras and len(facts) > 1:
        questions.append(ask_for_attributes(facts, min(len(facts), rng.randint(2, 3)), rng, voice))
    chunks = _portrait_chunks(entity, facts, rng, voice)
    return Plant(chunks, tuple(questions), claim(*names))


def _portrait_facts(
    entity: Entity, size: int, alike: bool, rng: Random, voice: Voice
) -> list[Fact]:
    kinds = rng.sample(ALIKE_KINDS, 2)
    facts: list[Fact] = []
    for _ in range(size * 8):
        if alike:
            attribute = attribute_of(rng.choice(kinds), rng, voice.lexicon)
        else:
            attribute = draw_attribute(entity.kind, rng, voice)
        if not any(clash(attribute, fact.attribute) for fact in facts):
            value = values.draw(attribute.value, rng, held_out=voice.held_out)
            facts.append(Fact(entity, attribute, value))
        if len(facts) == size:
            break
    return facts


ALIKE_KINDS = ("code", "pin", "money", "date", "count", "person", "duration", "phone", "pair")


def _portrait_chunks(
    entity: Entity, facts: list[Fact], rng: Random, voice: Voice
) -> tuple[Chunk, ...]:
    luck = rng.random()
    if luck < 0.6:
        return tuple(state(fact, rng, voice) for fact in facts)
    pronouns = [pronounce(fact, rng, voice) for fact in facts]
    if luck < 0.75:
        return (Chunk(" ".join([introduce(entity, rng), *pronouns])),)
    if luck < 0.9:
        heading = rng.choice(("## ", "### ", "", "# ", "3. ")) + capitalise(entity.name)
        return (Chunk(f"{heading}\n\n{' '.join(pronouns)}\n", is_block=True),)
    rows = [f"{rng.choice(fact.attribute.names)}: {fact.value}" for fact in facts]
    mark = rng.choice(("", "- ", "* "))
    lines = "\n".join(mark + capitalise(row) for row in rows)
    return (Chunk(f"{capitalise(entity.name)}\n{lines}\n", is_block=True),)


def plant_pass_phrase(rng: Random, voice: Voice, num_words: int) -> Plant:
    """A long value that has to be copied word by word."""
    entity = draw_entity(draw_kind(rng), rng, held_out=voice.held_out)
    name = rng.choice(_PHRASE_NOUNS)
    value = values.pass_phrase(rng, num_words)
    fact = Fact(entity, Attribute((name,), "pair", (entity.kind,)), value)
    question = ask(fact, rng, voice, "pass phrase")
    return Plant((state(fact, rng, voice),), (question,), claim(entity.name))


_PHRASE_NOUNS = (
    "pass phrase", "oath", "watchword", "slogan", "verse", "sequence of words", "message",
    "recovery phrase", "word list", "telegram", "inscription", "line to learn by heart",
)  # fmt: skip
