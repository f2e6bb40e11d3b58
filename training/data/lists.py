"""Several answers to one question, and other forms of the answer: a sentence, a continuation."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from training.data import values
from training.data.attributes import Attribute, compose_attribute, compose_attribute_of
from training.data.entities import Entity, draw_entity, draw_rival
from training.data.facts import Chunk, Fact, Needle, Question, claim, draw_kind
from training.data.phrasing import StyleConfig, choose, frame_question, say_question, say_sentence
from training.data.split import draw_until
from training.data.templates import expand, template_list
from training.data.text import capitalise, join_words, plural

_COUNTS = ("no", "one", "two", "three", "four", "five", "six")
_JOINTS = (", ", ", ", "; ", " / ", " | ", " or ", " as well as ")


@dataclass(frozen=True)
class ListShape:
    """How long and how crowded lists are.

    Attributes:
        least, most: values of a list; one is stated by a sentence of its own.
        subjects: how many have such a list of one and the same attribute.
        scattered: the share of lists whose values stand far apart.
    """

    least: int = 2
    most: int = 4
    subjects: int = 1
    scattered: float = 0.2


def make_list(rng: Random, style: StyleConfig, shape: ListShape = ListShape()) -> Needle:
    """Values of one attribute: in a sentence, one by one, apart, in two places, or as lines.

    The answer joins them as the sentence does, or by commas alone.
    """
    kind = draw_kind(rng)
    entities = {(one := draw_entity(kind, rng, held_out=style.held_out)).name: one}

    def another() -> Entity:
        make = draw_rival if rng.random() < 0.5 else _peer
        return make(rng.choice(list(entities.values())), rng, held_out=style.held_out)

    while len(entities) < shape.subjects:
        one = draw_until(lambda one: one.name not in entities, another)
        entities[one.name] = one
    attribute = compose_attribute(rng, style.lexicon)
    chunks: list[Chunk] = []
    questions: list[Question] = []
    tell = _way_to_tell(shape, rng)
    for entity in entities.values():
        facts = _draw_members(entity, attribute, shape, rng, style)
        told, answer = (tell if len(facts) > 1 else _apart)(facts, rng, style)
        chunks += told
        for _ in range(rng.randint(1, 2)):
            questions.append(Question(_ask_for_all(facts, rng, style), answer, "list"))
        if len(facts) > 1 and rng.random() < style.extras / 2:
            questions.append(_ask_for_rest(facts, rng, style))
    if tell is _as_lines and rng.random() < 0.5:  # one list below the other
        chunks = [Chunk("\n".join(chunk.text for chunk in chunks), is_block=True)]
    return Needle(tuple(chunks), tuple(questions), claim(*entities))


_Told = tuple[list[Chunk], str]  # what is said, and the answer


def _way_to_tell(
    shape: ListShape, rng: Random
) -> Callable[[list[Fact], Random, StyleConfig], _Told]:
    if rng.random() < shape.scattered:
        return _apart if rng.random() < 0.75 else _in_two_places
    return rng.choices((_together, _joined_otherwise, _one_by_one, _as_lines), (4, 1, 2, 2))[0]


def _peer(entity: Entity, rng: Random, *, held_out: bool) -> Entity:
    return draw_entity(entity.kind, rng, held_out=held_out)


def _draw_members(
    entity: Entity, attribute: Attribute, shape: ListShape, rng: Random, style: StyleConfig
) -> list[Fact]:
    """Facts of different values, none part of another one."""
    drawn: list[str] = []
    tries = 0
    while len(drawn) < shape.least or (len(drawn) < shape.most and rng.random() < 0.6):
        tries += 1
        value = values.draw(attribute.value, rng, held_out=style.held_out)
        if not any(value in other or other in value for other in drawn):
            drawn.append(value)
        elif tries > 20:  # a kind of few values: take one of many
            return _draw_members(
                entity, compose_attribute_of("code", rng, style.lexicon), shape, rng, style
            )
    return [Fact(entity, attribute, value) for value in drawn]


def _together(facts: list[Fact], rng: Random, style: StyleConfig) -> _Told:
    joined = join_words([fact.value for fact in facts])
    if len(facts) > 2 and rng.random() < 0.3:  # a comma before the last one
        joined = f"{', '.join(fact.value for fact in facts[:-1])}, and {facts[-1].value}"
    return [_list_sentence(facts, joined, rng, style)], joined


def _joined_otherwise(facts: list[Fact], rng: Random, style: StyleConfig) -> _Told:
    joined = rng.choice(_JOINTS).join(fact.value for fact in facts)
    return [_list_sentence(facts, joined, rng, style)], _by_commas(facts)


def _list_sentence(facts: list[Fact], joined: str, rng: Random, style: StyleConfig) -> Chunk:
    text = expand(
        choose(template_list("wordings", "list statements"), rng, style), rng, _slots(facts, joined)
    )
    return Chunk(say_sentence(text, rng, style))


def _one_by_one(facts: list[Fact], rng: Random, style: StyleConfig) -> _Told:
    first = expand(
        choose(template_list("wordings", "first of many"), rng, style),
        rng,
        _slots(facts, facts[0].value),
    )
    texts = [say_sentence(first, rng, style)]
    for fact in facts[1:]:
        more = expand(
            choose(template_list("wordings", "next of many"), rng, style),
            rng,
            _slots(facts, fact.value),
        )
        texts.append(capitalise(more) + ".")
    return [Chunk(" ".join(texts))], _by_commas(facts)


def _apart(facts: list[Fact], rng: Random, style: StyleConfig) -> _Told:
    thread = rng.getrandbits(31) + 1
    chunks = []
    for fact in facts:
        pool = (
            template_list("wordings", "first of many")
            if rng.random() < 0.4
            else template_list("needles", "list members")
        )
        text = expand(choose(pool, rng, style), rng, _slots(facts, fact.value))
        chunks.append(Chunk(say_sentence(text, rng, style), thread=thread))
    return chunks, _by_commas(facts)


def _in_two_places(facts: list[Fact], rng: Random, style: StyleConfig) -> _Told:
    """All but the last one in a sentence; the last one elsewhere, later."""
    thread = rng.getrandbits(31) + 1
    if len(facts) == 2:
        return _apart(facts, rng, style)
    (chunk,), _ = _together(facts[:-1], rng, style)
    more = expand(
        choose(template_list("needles", "list members"), rng, style),
        rng,
        _slots(facts, facts[-1].value),
    )
    chunks = [
        Chunk(chunk.text, thread=thread),
        Chunk(say_sentence(more, rng, style), thread=thread),
    ]
    return chunks, _by_commas(facts)


def _as_lines(facts: list[Fact], rng: Random, style: StyleConfig) -> _Told:
    del style
    name = plural(facts[0].attribute.names[0])
    head = expand(
        rng.choice(template_list("wordings", "list heads")),
        rng,
        {"As": name, "E": facts[0].entity.name},
    )
    mark = rng.choice(("- ", "* ", "", "+ ", "  - ", "{n}. ", "({n}) "))
    lines = [mark.replace("{n}", str(n)) + fact.value for n, fact in enumerate(facts, 1)]
    text = "\n".join([capitalise(head), *lines]) + "\n"
    return [Chunk(text, is_block=True)], _by_commas(facts)


def _by_commas(facts: list[Fact]) -> str:
    return ", ".join(fact.value for fact in facts)


def _slots(facts: list[Fact], value: str) -> dict[str, str]:
    name = facts[0].attribute.names[0]
    return {
        "A": name,
        "As": plural(name),
        "E": facts[0].entity.name,
        "N": _COUNTS[len(facts)],
        "V": value,
    }


def _ask_for_all(facts: list[Fact], rng: Random, style: StyleConfig) -> str:
    if rng.random() < 0.4:
        pattern = choose(template_list("wordings", "list questions"), rng, style)
    else:
        phrase = choose(template_list("wordings", "list phrases"), rng, style)
        frame = choose(template_list("wordings", "list frames"), rng, style)
        pattern = frame.replace("{NP}", phrase)
    return say_question(expand(pattern, rng, _slots(facts, "")), rng, style)


def _ask_for_rest(facts: list[Fact], rng: Random, style: StyleConfig) -> Question:
    """Ask for all but one that is named."""
    known = rng.choice(facts)
    pattern = choose(template_list("needles", "questions for the other members"), rng, style)
    text = say_question(expand(pattern, rng, _slots(facts, known.value)), rng, style)
    return Question(text, _by_commas([fact for fact in facts if fact is not known]), "others")


def ask_for_several(facts: list[Fact], count: int, rng: Random, style: StyleConfig) -> Question:
    """Ask for one attribute of `count` subjects at once; the answer keeps their order."""
    chosen = rng.sample(facts, count)
    name = rng.choice(chosen[0].attribute.names)
    names = [fact.entity.name for fact in chosen]
    slots = {
        "A": name,
        "As": plural(name),
        "Es": join_words(names),
        "OfEs": join_words([f"of {one}" for one in names]),
    }
    pattern = choose(template_list("wordings", "several keys questions"), rng, style)
    text = say_question(expand(pattern, rng, slots), rng, style)
    return _joint(text, chosen)


def ask_for_attributes(facts: list[Fact], count: int, rng: Random, style: StyleConfig) -> Question:
    """Ask for `count` attributes of one subject at once; the answer keeps their order."""
    chosen = rng.sample(facts, count)
    asked = [f"the {rng.choice(fact.attribute.names)}" for fact in chosen]
    slots = {"As": join_words(asked), "E": chosen[0].entity.name}
    pattern = choose(template_list("wordings", "several attributes questions"), rng, style)
    return _joint(say_question(expand(pattern, rng, slots), rng, style), chosen)


def _joint(text: str, facts: list[Fact]) -> Question:
    kind = {2: "two keys", 3: "three keys"}.get(len(facts), "four keys")
    kind = "one key" if len(facts) == 1 else kind
    return Question(text, join_words([fact.value for fact in facts]), kind)


def ask_for_sentence(fact: Fact, rng: Random, style: StyleConfig) -> Question:
    """Ask for a whole sentence, or for what follows the beginning of one."""
    phrase = rng.choice(("the {A} of {E}", "{E}'s {A}", "the {A} for {E}"))
    slots = {"A": rng.choice(fact.attribute.names), "E": fact.entity.name}
    begun = f"{capitalise(expand(phrase, rng, slots))} is"
    if rng.random() < 0.5:
        pattern = choose(template_list("wordings", "continuations"), rng, style)
        return Question(expand(pattern, rng, {"B": begun}), fact.value, "continuation")
    text = capitalise(expand(frame_question(phrase, rng, style), rng, slots))
    text += choose(template_list("wordings", "sentence tails"), rng, style)
    return Question(text, f"{begun} {fact.value}.", "sentence")
