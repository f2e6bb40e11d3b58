"""Several answers to one question, and other forms of the answer: a sentence, a continuation."""

from random import Random

from reader.data import values, wordings
from reader.data.attributes import attribute_of, made_attribute
from reader.data.entities import draw_entity
from reader.data.facts import Chunk, Fact, Plant, Question, claim, draw_kind
from reader.data.speech import (
    Voice,
    choose,
    frame_question,
    join_words,
    say_question,
    say_sentence,
    speak_statement,
)
from reader.data.template import capitalise, expand

_COUNTS = ("no", "one", "two", "three", "four")


def plural(name: str) -> str:
    """Plural of an attribute's noun: of the word before `of`, or of the last one."""
    head, mark, rest = name.partition(" of ")
    if head.endswith("s"):
        return name
    tail = "es" if head.endswith(("ch", "sh", "x")) else "s"
    if head.endswith("y") and head[-2:-1] not in "aeiou":
        head, tail = head[:-1], "ies"
    return head + tail + mark + rest


def plant_list(rng: Random, voice: Voice, least: int = 2) -> Plant:
    """Two to four values of one attribute: in a sentence, one by one, apart, or as lines.

    The answer joins them as the sentence does, or by commas alone.

    Args:
        least: how many values there are at least; one is stated by a sentence of its own.
    """
    entity = draw_entity(draw_kind(rng), rng, held_out=voice.held_out)
    attribute = made_attribute(rng, voice.lexicon)
    drawn: list[str] = []
    while len(drawn) < least or (len(drawn) < 4 and rng.random() < 0.6):
        value = values.draw(attribute.value, rng, held_out=voice.held_out)
        if value in drawn:  # a kind of few values: take one of many
            attribute = attribute_of("code", rng, voice.lexicon)
            drawn = []
            continue
        drawn.append(value)
    facts = [Fact(entity, attribute, value) for value in drawn]
    tell = rng.choices((_together, _one_by_one, _apart, _as_lines), (4, 2, 2, 2))[0]
    tell = tell if len(drawn) > 1 else _apart
    answer = join_words(drawn) if tell is _together else ", ".join(drawn)
    questions = tuple(
        Question(_ask_for_all(facts, rng, voice), answer, "list") for _ in range(rng.randint(1, 2))
    )
    return Plant(tell(facts, rng, voice), questions, claim(entity.name))


def _together(facts: list[Fact], rng: Random, voice: Voice) -> tuple[Chunk, ...]:
    joined = join_words([fact.value for fact in facts])
    text = expand(choose(wordings.LIST_STATEMENTS, rng, voice), rng, _slots(facts, joined))
    return (Chunk(say_sentence(text, rng, voice)),)


def _one_by_one(facts: list[Fact], rng: Random, voice: Voice) -> tuple[Chunk, ...]:
    first = expand(choose(wordings.FIRST_OF_MANY, rng, voice), rng, _slots(facts, facts[0].value))
    texts = [say_sentence(first, rng, voice)]
    for fact in facts[1:]:
        more = expand(choose(wordings.NEXT_OF_MANY, rng, voice), rng, _slots(facts, fact.value))
        texts.append(capitalise(more) + ".")
    return (Chunk(" ".join(texts)),)


def _apart(facts: list[Fact], rng: Random, voice: Voice) -> tuple[Chunk, ...]:
    thread = rng.getrandbits(31) + 1
    chunks = []
    for fact in facts:
        pattern = choose(wordings.FIRST_OF_MANY, rng, voice)
        text = say_sentence(expand(pattern, rng, _slots(facts, fact.value)), rng, voice)
        if rng.random() < 0.4:
            text = speak_statement(fact.entity, fact.attribute, fact.value, rng, voice)
        chunks.append(Chunk(text, thread=thread))
    return tuple(chunks)


def _as_lines(facts: list[Fact], rng: Random, voice: Voice) -> tuple[Chunk, ...]:
    del voice
    name = plural(facts[0].attribute.names[0])
    head = expand(rng.choice(wordings.LIST_HEADS), rng, {"As": name, "E": facts[0].entity.name})
    mark = rng.choice(("- ", "* ", "", "+ ", "  - "))
    lines = [mark + fact.value for fact in facts]
    return (Chunk("\n".join([capitalise(head), *lines]) + "\n", is_block=True),)


def _slots(facts: list[Fact], value: str) -> dict[str, str]:
    name = facts[0].attribute.names[0]
    return {
        "A": name,
        "As": plural(name),
        "E": facts[0].entity.name,
        "N": _COUNTS[len(facts)],
        "V": value,
    }


def _ask_for_all(facts: list[Fact], rng: Random, voice: Voice) -> str:
    if rng.random() < 0.4:
        pattern = choose(wordings.LIST_QUESTIONS, rng, voice)
    else:
        phrase = choose(wordings.LIST_PHRASES, rng, voice)
        frame = choose(wordings.LIST_FRAMES, rng, voice)
        pattern = frame.replace("{NP}", phrase)
    return say_question(expand(pattern, rng, _slots(facts, "")), rng, voice)


def ask_for_several(facts: list[Fact], count: int, rng: Random, voice: Voice) -> Question:
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
    pattern = choose(wordings.SEVERAL_KEYS_QUESTIONS, rng, voice)
    text = say_question(expand(pattern, rng, slots), rng, voice)
    return _joint(text, chosen)


def ask_for_attributes(facts: list[Fact], count: int, rng: Random, voice: Voice) -> Question:
    """Ask for `count` attributes of one subject at once; the answer keeps their order."""
    chosen = rng.sample(facts, count)
    asked = [f"the {rng.choice(fact.attribute.names)}" for fact in chosen]
    slots = {"As": join_words(asked), "E": chosen[0].entity.name}
    pattern = choose(wordings.SEVERAL_ATTRIBUTES_QUESTIONS, rng, voice)
    return _joint(say_question(expand(pattern, rng, slots), rng, voice), chosen)


def _joint(text: str, facts: list[Fact]) -> Question:
    kind = {2: "two keys", 3: "three keys"}.get(len(facts), "four keys")
    kind = "one key" if len(facts) == 1 else kind
    return Question(text, join_words([fact.value for fact in facts]), kind)


def ask_for_sentence(fact: Fact, rng: Random, voice: Voice) -> Question:
    """Ask for a whole sentence, or for what follows the beginning of one."""
    phrase = rng.choice(("the {A} of {E}", "{E}'s {A}", "the {A} for {E}"))
    slots = {"A": rng.choice(fact.attribute.names), "E": fact.entity.name}
    begun = f"{capitalise(expand(phrase, rng, slots))} is"
    if rng.random() < 0.5:
        pattern = choose(wordings.CONTINUATIONS, rng, voice)
        return Question(expand(pattern, rng, {"B": begun}), fact.value, "continuation")
    text = capitalise(expand(frame_question(phrase, rng, voice), rng, slots))
    text += choose(wordings.SENTENCE_TAILS, rng, voice)
    return Question(text, f"{begun} {fact.value}.", "sentence")
