"""The table's cells: what is planted at which lengths, and which questions count."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from training.data import plants
from training.data.facts import Plant
from training.data.speech import Voice

PlantMaker = Callable[[Random], Plant]
# Wordings as in training, names that training never drew; and wordings that it never used either:
# composed ones, which call the attribute by its noun, and paraphrases of their own, which do not.
SEEN = Voice(wordings="train", held_out=True, refusals=0.0, extras=0.0)
HELD_OUT = replace(SEEN, wordings="held_out", own=0.0)
PARAPHRASED = replace(SEEN, wordings="held_out", own=1.0)
# Cells of natural questions; their documents are as long as they are.
PARAGRAPH, ARTICLE = "SQuAD, paragraph alone", "SQuAD, whole article"
OWN = 0
HELD_OUT_NAME = "held-out"  # in the names of cells of wordings that were never trained on
PARAPHRASES = "paraphrases"
EXCERPTS = "excerpts"
THEMES = "neighbouring excerpts"
_ALL_LENGTHS = (4096, 16_384, 32_768, 65_536, 131_072)


@dataclass(frozen=True)
class Cell:
    """One row of the table.

    Attributes:
        make: draws a plant; its questions of other kinds than these do not count.
        lengths: of the documents, in tokens.
    """

    name: str
    make: PlantMaker
    kinds: tuple[str, ...]
    lengths: tuple[int, ...] = (16_384,)


def cells() -> tuple[Cell, ...]:
    """The cells of planted facts, those at every length first."""
    return (
        Cell("single", _single(SEEN), ("single",), _ALL_LENGTHS),
        Cell("same attribute", _crowd(2, 8), ("same attribute",), _ALL_LENGTHS),
        Cell("same entity", _portrait(SEEN), ("same entity",), _ALL_LENGTHS),
        Cell("unanswerable", _near_misses, ("unanswerable",), _ALL_LENGTHS),
        *_worded(f"{HELD_OUT_NAME} wordings", HELD_OUT),
        *_worded(f"{HELD_OUT_NAME} {PARAPHRASES}", PARAPHRASED),
        Cell("rules and events", lambda rng: plants.plant_scene(rng, SEEN), ("scene",)),
        Cell(EXCERPTS, _excerpts(SEEN), ("excerpt",)),
        Cell(f"{EXCERPTS}, {HELD_OUT_NAME}", _excerpts(HELD_OUT), ("excerpt",)),
        Cell(THEMES, _themes(SEEN), ("excerpt",)),
        Cell(f"{THEMES}, {HELD_OUT_NAME}", _themes(HELD_OUT), ("excerpt",)),
        Cell("clauses", lambda rng: plants.plant_predicates(rng, SEEN), ("predicate",)),
        Cell("legends", lambda rng: plants.plant_legend(rng, SEEN), ("legend",)),
        Cell("32 rivals", _crowd(33, 33), ("crowd",)),
        Cell("word-pair keys", _shaped(key="word pair"), ("same attribute",)),
        Cell("code keys", _shaped(key="code"), ("same attribute",)),
        Cell("UUID keys", _shaped(key="uuid"), ("same attribute",)),
        Cell("UUID values", _shaped(value="uuid"), ("same attribute",)),
        Cell("12-digit values", _shaped(value="digits12"), ("same attribute",)),
        Cell("list", lambda rng: plants.plant_list(rng, SEEN), ("list",)),
        Cell("two keys", _several, ("two keys",)),
        Cell("three keys", _several, ("three keys",)),
        Cell("table", lambda rng: plants.plant_table(rng, SEEN), ("table",)),
        Cell("assignment", lambda rng: plants.plant_config(rng, SEEN), ("assignment",)),
        Cell("chain of two", lambda rng: plants.plant_chain(rng, SEEN), ("chain",)),
        Cell("two hop", lambda rng: plants.plant_two_hop(rng, SEEN), ("two hop",)),
        Cell("pass phrase, 1 to 8 words", _pass_phrase(1, 8), ("pass phrase",)),
        Cell("pass phrase, 32 words", _pass_phrase(32, 32), ("pass phrase",)),
    )


def _worded(name: str, voice: Voice) -> tuple[Cell, ...]:
    """The cells of one fact and of several, in a voice's wordings."""
    return (
        Cell(f"single, {name}", _single(voice), ("single",)),
        Cell(f"same attribute, {name}", _crowd(2, 8, voice), ("same attribute",)),
        Cell(f"same entity, {name}", _portrait(voice), ("same entity",)),
    )


def _single(voice: Voice) -> PlantMaker:
    return lambda rng: plants.plant_single(rng, voice)


def _excerpts(voice: Voice) -> PlantMaker:
    return lambda rng: plants.plant_excerpts(rng, voice)


def _themes(voice: Voice) -> PlantMaker:
    return lambda rng: plants.plant_theme(rng, voice, rng.randint(4, 12))


def _crowd(least: int, most: int, voice: Voice = SEEN) -> PlantMaker:
    return lambda rng: plants.plant_crowd(rng, voice, rng.randint(least, most))


def _portrait(voice: Voice) -> PlantMaker:
    return lambda rng: plants.plant_portrait(rng, voice, rng.randint(2, 8))


def _shaped(key: str = "", value: str = "") -> PlantMaker:
    return lambda rng: plants.plant_shaped(rng, SEEN, rng.randint(2, 8), key, value)


def _several(rng: Random) -> Plant:
    return plants.plant_crowd(rng, replace(SEEN, extras=1.0), rng.randint(3, 8))


def _pass_phrase(least: int, most: int) -> PlantMaker:
    return lambda rng: plants.plant_pass_phrase(rng, SEEN, rng.randint(least, most))


def _near_misses(rng: Random) -> Plant:
    missing = replace(SEEN, refusals=1.0)
    makers: tuple[PlantMaker, ...] = (
        lambda rng: plants.plant_single(rng, missing),
        lambda rng: plants.plant_crowd(rng, missing, rng.randint(2, 8)),
        lambda rng: plants.plant_portrait(rng, missing, rng.randint(2, 6)),
        lambda rng: plants.plant_scene(rng, missing),
    )
    return rng.choice(makers)(rng)
