"""Plants of inventories: how many of what there are somewhere, and of what nothing is said."""

from random import Random

from training.data import values, words
from training.data.entities import Entity, draw_entity, draw_rival
from training.data.facts import Chunk, Fact, Plant, Question, claim, draw_attribute, state
from training.data.speech import Voice, choose, join_words, say_question, say_sentence
from training.data.template import expand
from training.data.wordings import REFUSAL

_STATEMENTS = (
    "{E} has {V}",
    "{E} [holds|keeps|owns|contains] {V}",
    "there are {V} [in|at] {E}",
    "[in|at] {E} one [finds|sees|counts] {V}",
    "{V} belong to {E}",
    "{V} were [counted|seen|found] [in|at] {E}",
    "the [list|register] for {E} [names|shows] {V}",
    "{E} was [fitted|furnished|supplied] with {V}",
    "with its {V}, {E} is [well provided|never short of anything]",
    "{E}: {V}",
    "what {E} has is {V}",
    "{V} make up the stock of {E}",
)
_QUESTIONS = (
    "How many {G} does {E} have?",
    "How many {G} can be found [in|at] {E}?",
    "How many {G} belong to {E}?",
    "How many {G} has {E}?",
    "What is the number of {G} [in|at|of] {E}?",
    "{E}: how many {G}?",
    "What number of {G} does {E} [hold|keep]?",
    "[In|At] {E}, how many {G} [are there|does one find]?",
    "How many {G} were counted [in|at] {E}?",
    "How large is the stock of {G} [in|at] {E}?",
    "Of {G}, how many does {E} [own|have]?",
)


def plant_inventory(rng: Random, voice: Voice) -> Plant:
    """One to three places with counted goods; goods that only another one has are refused."""
    kind = rng.choice(("site", "body", "thing"))
    first = draw_entity(kind, rng, held_out=voice.held_out)
    places = {first.name: first}
    for _ in range(rng.choice((0, 1, 2))):
        rival = draw_rival(first, rng, held_out=voice.held_out)
        places[rival.name] = rival
    goods = rng.sample(words.GOODS, 5)
    chunks: list[Chunk] = []
    questions: list[Question] = []
    for place in places.values():
        held = _draw_counts(rng.sample(goods, rng.choice((0, 1, 1, 2, 3))), rng)
        chunks += _tell(place, held, rng, voice)
        questions += [ask_how_many(place, good, count, rng, voice) for good, count in held.items()]
        if rng.random() < voice.refusals * 1.5:
            missing = rng.choice([good for good in goods if good not in held])
            questions.append(ask_how_many(place, missing, "", rng, voice))
    return Plant(tuple(chunks), tuple(questions), claim(*places))


def _draw_counts(goods: list[str], rng: Random) -> dict[str, str]:
    return {good: values.draw("count", rng) for good in goods}


def _tell(place: Entity, held: dict[str, str], rng: Random, voice: Voice) -> list[Chunk]:
    """What is held, in one sentence or in several, and something else about the place."""
    parts = [f"{count} {good}" for good, count in held.items()]
    told = [join_words(parts)] if parts and rng.random() < 0.5 else parts
    chunks = []
    for part in told:
        text = expand(choose(_STATEMENTS, rng, voice), rng, {"E": place.name, "V": part})
        chunks.append(Chunk(say_sentence(text, rng, voice)))
    if not chunks or rng.random() < 0.5:
        attribute = draw_attribute(place.kind, rng, voice)
        value = values.draw(attribute.value, rng, held_out=voice.held_out)
        chunks.append(state(Fact(place, attribute, value), rng, voice))
    return chunks


def ask_how_many(place: Entity, good: str, count: str, rng: Random, voice: Voice) -> Question:
    """Ask for a count; without one, the document does not say."""
    text = expand(choose(_QUESTIONS, rng, voice), rng, {"E": place.name, "G": good})
    text = say_question(text, rng, voice)
    return Question(text, count or REFUSAL, "inventory" if count else "unanswerable")
