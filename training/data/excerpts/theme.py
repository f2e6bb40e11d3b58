"""Plants of a theme: excerpts that stand near each other in a file speak of the same things.

A handbook's sections are about one house. Amid a novel the sentence that holds the answer is found
by its subject alone; amid its own kind it has to be told from its neighbours, and what none of them
tells is not to be answered by one that sounds alike.
"""

from random import Random

from training.data.excerpts.case import draw_cases
from training.data.excerpts.excerpt import Excerpt, excerpts
from training.data.excerpts.plant import ask_excerpt, join_chunks, plant_excerpts
from training.data.facts import Plant, Question
from training.data.speech import Voice
from training.data.wordings import REFUSAL

_SPREAD = 3  # a theme has so many times the excerpts that are told
_SECTION_SHARE = 0.5  # of the themes: they are told in one place


def plant_theme(rng: Random, voice: Voice, count: int) -> Plant:
    """Up to `count` neighbouring excerpts of the voice's side of the split, and questions.

    A neighbour that is not told is asked about too, where refusals are wanted.
    """
    known = excerpts(held_out=voice.wordings == "held_out")
    start = rng.randrange(len(known))
    theme = [known[(start + place) % len(known)] for place in range(_SPREAD * count)]
    rng.shuffle(theme)
    plants: list[Plant] = []
    claimed: set[str] = set()
    for excerpt in theme[:count]:
        plant = plant_excerpts(rng, voice, excerpt)
        if not claimed & plant.claims:
            claimed |= plant.claims
            plants.append(plant)
    chunks = [chunk for plant in plants for chunk in plant.chunks]
    return Plant(
        (join_chunks(chunks, rng),) if rng.random() < _SECTION_SHARE else tuple(chunks),
        (
            *(question for plant in plants for question in plant.questions),
            *_ask_untold(theme[count:], len(plants), rng, voice),
        ),
        frozenset(claimed),
    )


def _ask_untold(untold: list[Excerpt], most: int, rng: Random, voice: Voice) -> list[Question]:
    """Questions about neighbours that the document does not have, fewer than `most`."""
    wanted = int(most * voice.refusals * rng.random())
    return [_ask_without_answer(excerpt, rng, voice) for excerpt in untold[:wanted]]


def _ask_without_answer(excerpt: Excerpt, rng: Random, voice: Voice) -> Question:
    (slots,) = draw_cases(excerpt, 1, rng, voice)
    text, _ = rng.choice(excerpt.questions)
    return ask_excerpt(text, slots, REFUSAL, rng, voice)
