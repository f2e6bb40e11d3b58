"""Needles of inventories: how many of what there are somewhere, and of what nothing is said."""

from random import Random

from training.data import values
from training.data.entities import Entity, draw_entity, draw_rival
from training.data.facts import REFUSAL, Chunk, Fact, Needle, Question, claim, draw_attribute, state
from training.data.phrasing import StyleConfig, choose, say_question, say_sentence
from training.data.templates import expand, template_list, word_list
from training.data.text import join_words


def make_inventory(rng: Random, style: StyleConfig) -> Needle:
    """One to three places with counted goods; goods that only another one has are refused."""
    kind = rng.choice(("site", "body", "thing"))
    first = draw_entity(kind, rng, held_out=style.held_out)
    places = {first.name: first}
    for _ in range(rng.choice((0, 1, 2))):
        rival = draw_rival(first, rng, held_out=style.held_out)
        places[rival.name] = rival
    goods = rng.sample(word_list("goods"), 5)
    chunks: list[Chunk] = []
    questions: list[Question] = []
    for place in places.values():
        held = _draw_counts(rng.sample(goods, rng.choice((0, 1, 1, 2, 3))), rng)
        chunks += _tell(place, held, rng, style)
        questions += [ask_how_many(place, good, count, rng, style) for good, count in held.items()]
        if rng.random() < style.refusals * 1.5:
            missing = rng.choice([good for good in goods if good not in held])
            questions.append(ask_how_many(place, missing, "", rng, style))
    return Needle(tuple(chunks), tuple(questions), claim(*places))


def _draw_counts(goods: list[str], rng: Random) -> dict[str, str]:
    return {good: values.draw("count", rng) for good in goods}


def _tell(place: Entity, held: dict[str, str], rng: Random, style: StyleConfig) -> list[Chunk]:
    """What is held, in one sentence or in several, and something else about the place."""
    parts = [f"{count} {good}" for good, count in held.items()]
    told = [join_words(parts)] if parts and rng.random() < 0.5 else parts
    chunks = []
    for part in told:
        text = expand(
            choose(template_list("needles", "inventory statements"), rng, style),
            rng,
            {"E": place.name, "V": part},
        )
        chunks.append(Chunk(say_sentence(text, rng, style)))
    if not chunks or rng.random() < 0.5:
        attribute = draw_attribute(place.kind, rng, style)
        value = values.draw(attribute.value, rng, held_out=style.held_out)
        chunks.append(state(Fact(place, attribute, value), rng, style))
    return chunks


def ask_how_many(place: Entity, good: str, count: str, rng: Random, style: StyleConfig) -> Question:
    """Ask for a count; without one, the document does not say."""
    text = expand(
        choose(template_list("needles", "inventory questions"), rng, style),
        rng,
        {"E": place.name, "G": good},
    )
    text = say_question(text, rng, style)
    return Question(text, count or REFUSAL, "inventory" if count else "unanswerable")
