"""Plants: facts put into a document together with the questions that they answer."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from reader.data import values, words
from reader.data.attributes import ATTRIBUTES, Attribute, made_attribute
from reader.data.entities import KINDS, Entity, draw_entity, draw_rival
from reader.data.lines import config_block, question_for_line
from reader.data.scenes import Scene, scenes
from reader.data.speech import (
    Voice,
    join_words,
    say_question,
    say_sentence,
    speak_question,
    speak_statement,
)
from reader.data.template import capitalise, expand, slots_of
from reader.data.wordings import (
    INTRODUCTIONS,
    LIST_QUESTIONS,
    LIST_STATEMENTS,
    PRONOUN_STATEMENTS,
    REFUSAL,
    TWO_HOP_QUESTIONS,
)


@dataclass(frozen=True)
class Chunk:
    """Text to be planted: within a paragraph, or as lines of its own."""

    text: str
    is_block: bool = False


@dataclass(frozen=True)
class Question:
    """A question, the answer that the document gives, and the kind it is counted under."""

    text: str
    answer: str
    kind: str


@dataclass(frozen=True)
class Plant:
    """Chunks of text and the questions about them."""

    chunks: tuple[Chunk, ...]
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class Fact:
    """A subject's attribute and its value."""

    entity: Entity
    attribute: Attribute
    value: str


def draw_attribute(kind: str, rng: Random) -> Attribute:
    """Draw an attribute that fits a kind of entity; keys have composed ones only."""
    if kind == "key" or rng.random() < 0.3:
        return made_attribute(rng)
    while True:
        attribute = ATTRIBUTES[int(rng.random() * len(ATTRIBUTES))]
        if kind in attribute.subjects:
            return attribute


def draw_kind(rng: Random) -> str:
    """Draw a kind of entity."""
    return "key" if rng.random() < 0.16 else KINDS[int(rng.random() * len(KINDS))]


def draw_fact(rng: Random, voice: Voice) -> Fact:
    """Draw a subject, one of its attributes and a value."""
    entity = draw_entity(draw_kind(rng), rng, held_out=voice.held_out)
    attribute = draw_attribute(entity.kind, rng)
    return Fact(entity, attribute, values.draw(attribute.value, rng, held_out=voice.held_out))


def ask(fact: Fact, rng: Random, voice: Voice, kind: str) -> Question:
    """Ask for the fact's value."""
    return Question(speak_question(fact.entity, fact.attribute, rng, voice), fact.value, kind)


def refuse(entity: Entity, attribute: Attribute, rng: Random, voice: Voice) -> Question:
    """Ask what the document does not say."""
    return Question(speak_question(entity, attribute, rng, voice), REFUSAL, "unanswerable")


def state(fact: Fact, rng: Random, voice: Voice) -> Chunk:
    """State the fact in a sentence, a line or a short paragraph."""
    text, luck = speak_statement(fact.entity, fact.attribute, fact.value, rng, voice), rng.random()
    if luck < 0.75:
        return Chunk(text)
    if luck < 0.85:
        return Chunk(rng.choice(("- ", "* ", "", "1. ", "NOTE: ")) + text, is_block=True)
    return Chunk(f"{_introduce(fact.entity, rng)} {_pronoun(fact, rng)}")


def _introduce(entity: Entity, rng: Random) -> str:
    return capitalise(expand(rng.choice(INTRODUCTIONS), rng, {"E": entity.name}))


def _pronoun(fact: Fact, rng: Random) -> str:
    own = fact.attribute.statements
    if own and rng.random() < 0.5:
        subject = (
            rng.choice(("this person", "our friend")) if fact.entity.kind == "person" else "it"
        )
        text = expand(rng.choice(own), rng, {"E": subject, "V": fact.value})
    else:
        slots = {"A": rng.choice(fact.attribute.names), "V": fact.value}
        text = expand(rng.choice(PRONOUN_STATEMENTS), rng, slots)
    return capitalise(text) + "."


def _clash(one: Attribute, other: Attribute) -> bool:
    if set(one.names) & set(other.names):
        return True
    return any(one.names[0] in group and other.names[0] in group for group in _CONFUSABLE)


_CONFUSABLE = (
    {"price", "fee", "limit", "annual budget", "turnover", "salary"},
    {"office", "seat", "storage place", "venue", "destination", "neighbour", "birthplace"},
    {"keeper", "responsible role", "approver", "head", "owner", "mayor"},
    {"access code", "internal code", "form", "badge number", "serial number"},
    {"notice period", "processing time", "duration", "lifetime", "service interval"},
    {"number of members", "number of participants", "capacity", "limit"},
    {"deadline", "start date", "date of birth", "founding year"},
    {"length", "weight", "speed", "distance"},
    {"phone number", "email address", "web page"},
    {"main product", "cargo"},
    {"profession", "field of study", "employer"},
)


def plant_single(rng: Random, voice: Voice) -> Plant:
    """One fact of its own; now and then a near miss is asked for, too."""
    fact = draw_fact(rng, voice)
    questions = [ask(fact, rng, voice, "single")]
    if rng.random() < voice.refusals:
        questions.append(_near_miss(fact, [fact.attribute], [fact.entity.name], rng, voice))
    return Plant((state(fact, rng, voice),), tuple(questions))


def _near_miss(
    fact: Fact, taken: list[Attribute], names: list[str], rng: Random, voice: Voice
) -> Question:
    for _ in range(50):
        if rng.random() < 0.5:
            attribute = draw_attribute(fact.entity.kind, rng)
            if not any(_clash(attribute, other) for other in taken):
                return refuse(fact.entity, attribute, rng, voice)
        else:
            rival = draw_rival(fact.entity, rng, held_out=voice.held_out)
            if rival.name not in names:
                return refuse(rival, fact.attribute, rng, voice)
    return refuse(draw_entity("person", rng, held_out=voice.held_out), fact.attribute, rng, voice)


def plant_crowd(rng: Random, voice: Voice, size: int) -> Plant:
    """The same attribute of several subjects of one kind, near-equal names among them."""
    first = draw_fact(rng, voice)
    facts, taken = [first], {first.entity.name}
    while len(facts) < size:
        base = rng.choice(facts).entity
        make = draw_rival if rng.random() < 0.4 else _peer
        entity = make(base, rng, held_out=voice.held_out)
        if entity.name not in taken:
            taken.add(entity.name)
            value = values.draw(first.attribute.value, rng, held_out=voice.held_out)
            facts.append(Fact(entity, first.attribute, value))
    chunks = _crowd_chunks(facts, rng, voice)
    kind = "same attribute" if size <= 8 else "crowd"
    questions = [ask(fact, rng, voice, kind) for fact in facts]
    if rng.random() < voice.refusals * 1.5:
        for _ in range(1 + size // 8):
            fact = rng.choice(facts)
            questions.append(_near_miss(fact, [first.attribute], list(taken), rng, voice))
    if rng.random() < voice.extras and size > 1:
        questions.append(_ask_for_two(facts, rng))
    return Plant(tuple(chunks), tuple(questions))


def _peer(entity: Entity, rng: Random, *, held_out: bool) -> Entity:
    return draw_entity(entity.kind, rng, held_out=held_out)


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


def _ask_for_two(facts: list[Fact], rng: Random) -> Question:
    one, two = rng.sample(facts, 2)
    name = rng.choice(one.attribute.names)
    text = expand(
        rng.choice((
            "What are the {A}s of {E} and {F}?", "Give the {A} of {E} and that of {F}.",
            "What is the {A} of {E}, and what is that of {F}?",
        )),
        rng, {"A": name, "E": one.entity.name, "F": two.entity.name},
    )  # fmt: skip
    return Question(text, f"{one.value} and {two.value}", "two keys")


def plant_portrait(rng: Random, voice: Voice, size: int) -> Plant:
    """Several attributes of one subject: apart, in one paragraph, or under a heading."""
    entity = draw_entity(draw_kind(rng), rng, held_out=voice.held_out)
    facts: list[Fact] = []
    for _ in range(size * 8):
        attribute = draw_attribute(entity.kind, rng)
        if not any(_clash(attribute, fact.attribute) for fact in facts):
            value = values.draw(attribute.value, rng, held_out=voice.held_out)
            facts.append(Fact(entity, attribute, value))
        if len(facts) == size:
            break
    questions = [ask(fact, rng, voice, "same entity") for fact in facts]
    if rng.random() < voice.refusals * 1.5:
        taken = [fact.attribute for fact in facts]
        questions.append(_near_miss(rng.choice(facts), taken, [entity.name], rng, voice))
    return Plant(_portrait_chunks(entity, facts, rng, voice), tuple(questions))


def _portrait_chunks(
    entity: Entity, facts: list[Fact], rng: Random, voice: Voice
) -> tuple[Chunk, ...]:
    luck = rng.random()
    if luck < 0.6:
        return tuple(state(fact, rng, voice) for fact in facts)
    pronouns = [_pronoun(fact, rng) for fact in facts]
    if luck < 0.75:
        return (Chunk(" ".join([_introduce(entity, rng), *pronouns])),)
    if luck < 0.9:
        heading = rng.choice(("## ", "### ", "", "# ", "3. ")) + capitalise(entity.name)
        return (Chunk(f"{heading}\n\n{' '.join(pronouns)}\n", is_block=True),)
    rows = [f"{rng.choice(fact.attribute.names)}: {fact.value}" for fact in facts]
    mark = rng.choice(("", "- ", "* "))
    lines = "\n".join(mark + capitalise(row) for row in rows)
    return (Chunk(f"{capitalise(entity.name)}\n{lines}\n", is_block=True),)


def plant_two_hop(rng: Random, voice: Voice) -> Plant:
    """A person named by one fact and described by another."""
    while True:
        first = draw_fact(rng, voice)
        if first.attribute.value == "person":
            break
    second_attribute = draw_attribute("person", rng)
    bridge = Entity("person", first.value)
    second = Fact(
        bridge, second_attribute, values.draw(second_attribute.value, rng, held_out=voice.held_out)
    )
    slots = {
        "A": rng.choice(second_attribute.names),
        "B": rng.choice(first.attribute.names),
        "E": first.entity.name,
    }
    text = capitalise(expand(rng.choice(TWO_HOP_QUESTIONS), rng, slots))
    return Plant(
        (state(first, rng, voice), state(second, rng, voice)),
        (
            Question(text, second.value, "two hop"),
            ask(first, rng, voice, "single"),
            ask(second, rng, voice, "single"),
        ),
    )


def plant_pass_phrase(rng: Random, voice: Voice, num_words: int) -> Plant:
    """A long value that has to be copied word by word."""
    entity = draw_entity(draw_kind(rng), rng, held_out=voice.held_out)
    name = rng.choice(("pass phrase", "oath", "watchword", "slogan", "verse", "sequence of words"))
    value = values.pass_phrase(rng, num_words)
    fact = Fact(entity, Attribute((name,), "pair", (entity.kind,)), value)
    return Plant((state(fact, rng, voice),), (ask(fact, rng, voice, "pass phrase"),))


def plant_list(rng: Random, voice: Voice) -> Plant:
    """Several values of one attribute."""
    entity = draw_entity(draw_kind(rng), rng, held_out=voice.held_out)
    attribute = made_attribute(rng)
    count = rng.randint(2, 4)
    drawn = [values.draw(attribute.value, rng, held_out=voice.held_out) for _ in range(count)]
    slots = {"As": f"{attribute.names[0]}s", "E": entity.name, "V": join_words(drawn)}
    statement = say_sentence(expand(rng.choice(LIST_STATEMENTS), rng, slots), rng, voice)
    question = say_question(expand(rng.choice(LIST_QUESTIONS), rng, slots), rng, voice)
    return Plant((Chunk(statement),), (Question(question, slots["V"], "list"),))


def plant_scene(rng: Random, voice: Voice) -> Plant:
    """A rule or an event of several slots."""
    scene = rng.choice(scenes())
    slots = _fill_all(scene, rng, voice)
    statement = rng.choice(scene.statements)
    sentence = say_sentence(expand(statement, rng, slots), rng, voice)
    founded = [q for q in scene.questions if {q[1], *_bases(q[0])} <= _bases(statement)]
    asked = rng.sample(founded, min(len(founded), rng.randint(1, 3)))
    questions = [
        Question(say_question(expand(text, rng, slots), rng, voice), slots[answer], "scene")
        for text, answer in asked
    ]
    if rng.random() < voice.refusals:
        questions.append(_missing_from(scene, slots, rng, voice))
    is_block = rng.random() < 0.25
    return Plant((Chunk(sentence, is_block),), tuple(questions))


def _missing_from(scene: Scene, slots: dict[str, str], rng: Random, voice: Voice) -> Question:
    """Ask for something else about one who is in the scene, or the same about others."""
    subjects = [name for name, kind in scene.slots.items() if kind in _SUBJECT_SLOTS]
    telling = [text for text, _ in scene.questions if _is_telling(text, scene)]
    if subjects and (not telling or rng.random() < 0.5):
        name = rng.choice(subjects)
        entity = Entity(_SUBJECT_SLOTS[scene.slots[name]], slots[name])
        while True:  # an attribute of which the scene says nothing
            attribute = draw_attribute(entity.kind, rng)
            if attribute.value not in scene.slots.values():
                return refuse(entity, attribute, rng, voice)
    other = _fill_all(scene, rng, voice)
    if not telling:
        entity = draw_entity(draw_kind(rng), rng, held_out=voice.held_out)
        return refuse(entity, draw_attribute(entity.kind, rng), rng, voice)
    text = rng.choice(telling)
    return Question(say_question(expand(text, rng, other), rng, voice), REFUSAL, "unanswerable")


def _is_telling(question: str, scene: Scene) -> bool:
    """Whether the question names someone or something that hardly another scene shares."""
    return any(scene.slots[base] in _TELLING_KINDS for base in _bases(question))


def _bases(template: str) -> set[str]:
    """Names of slots; the forms of a verb count as the verb."""
    return {name.split("_")[0] for name in slots_of(template)}


def _fill_all(scene: Scene, rng: Random, voice: Voice) -> dict[str, str]:
    slots = {name: _fill(kind, rng, voice) for name, kind in scene.slots.items()}
    for name, kind in scene.slots.items():
        if kind == "verb":
            slots[f"{name}_ed"], slots[f"{name}_ing"] = words.VERBS[slots[name]]
    return slots


def _fill(kind: str, rng: Random, voice: Voice) -> str:
    if kind in _ENTITY_SLOTS:
        return draw_entity(_ENTITY_SLOTS[kind], rng, held_out=voice.held_out).name
    return values.draw(kind, rng, held_out=voice.held_out)


_ENTITY_SLOTS = {"object": "thing", "event": "project", "site": "site", "service": "service"}
_SUBJECT_SLOTS = _ENTITY_SLOTS | {"person": "person", "org": "body", "place": "site"}
_TELLING_KINDS = frozenset(_SUBJECT_SLOTS) | {"damaged"}


def plant_config(rng: Random, voice: Voice) -> Plant:
    """Assignments in the syntax of a configuration file, some of them chained."""
    block = config_block(rng)
    asked = rng.sample(sorted(block.values), min(len(block.values), rng.randint(1, 6)))
    questions = [
        Question(question_for_line(key, rng), block.values[key], "assignment") for key in asked
    ]
    if block.chained:
        key, value = block.chained
        questions.append(Question(question_for_line(key, rng), value, "chain"))
    if rng.random() < voice.refusals:
        questions.append(Question(question_for_line(block.missing, rng), REFUSAL, "unanswerable"))
    return Plant((Chunk(block.text, is_block=True),), tuple(questions))


def plant_table(rng: Random, voice: Voice) -> Plant:
    """A table: subjects in rows, attributes in columns."""
    kind = draw_kind(rng)
    num_rows, num_columns = rng.randint(2, 10), rng.randint(2, 4)
    columns: list[Attribute] = []
    while len(columns) < num_columns:
        attribute = draw_attribute(kind, rng)
        if not any(_clash(attribute, other) for other in columns):
            columns.append(attribute)
    names = {draw_entity(kind, rng, held_out=voice.held_out).name for _ in range(num_rows)}
    facts = [
        [Fact(Entity(kind, name), column, _table_value(column, rng, voice)) for column in columns]
        for name in sorted(names)
    ]
    rng.shuffle(facts)
    asked = [rng.choice(row) for row in rng.sample(facts, min(len(facts), 4))]
    questions = [ask(fact, rng, voice, "table") for fact in asked]
    return Plant((Chunk(_table_text(facts, rng), is_block=True),), tuple(questions))


def _table_value(attribute: Attribute, rng: Random, voice: Voice) -> str:
    return values.draw(attribute.value, rng, held_out=voice.held_out)


def _table_text(facts: list[list[Fact]], rng: Random) -> str:
    head = ["name", *(rng.choice(fact.attribute.names) for fact in facts[0])]
    rows = [[row[0].entity.name, *(fact.value for fact in row)] for row in facts]
    if rng.random() < 0.6:
        lines = ["| " + " | ".join(row) + " |" for row in [head, *rows]]
        lines.insert(1, "|" + "---|" * len(head))
    else:
        mark = rng.choice((" | ", "\t", ", ", "; "))
        lines = [mark.join(row) for row in [head, *rows]]
    return "\n".join(lines) + "\n"


def plant_any(rng: Random, voice: Voice, room: int) -> Plant:
    """Draw a plant of any kind that may fit into about `room` tokens."""
    kinds, weights = zip(*_MIX, strict=True)
    return rng.choices(kinds, weights)[0](rng, voice, room)  # type: ignore[no-any-return]


def crowd_size(rng: Random, most: int) -> int:
    """Draw 2 to `most`, uniform in the logarithm: small crowds are common."""
    return int(2 * (max(most, 2) / 2) ** rng.random() + 0.5)


_Maker = Callable[[Random, Voice, int], Plant]
_MIX: tuple[tuple[_Maker, float], ...] = (
    (lambda rng, voice, _: plant_single(rng, voice), 0.30),
    (lambda rng, voice, room: plant_crowd(rng, voice, crowd_size(rng, min(64, room // 60))), 0.13),
    (lambda rng, voice, room: plant_portrait(rng, voice, rng.randint(2, min(8, 2 + room // 120))),
     0.13),
    (lambda rng, voice, _: plant_scene(rng, voice), 0.6),
    (lambda rng, voice, _: plant_two_hop(rng, voice), 0.05),
    (lambda rng, voice, room: plant_pass_phrase(
        rng, voice, rng.randint(1, 32 if room > 500 else 12)), 0.03),
    (lambda rng, voice, _: plant_list(rng, voice), 0.03),
    (lambda rng, voice, _: plant_config(rng, voice), 0.05),
    (lambda rng, voice, _: plant_table(rng, voice), 0.04),
)  # fmt: skip
