"""What is evaluated: tasks, the needles of each, and the lengths of its documents."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from training.data.assignments import make_assignments, make_chain
from training.data.clauses import make_clauses
from training.data.excerpts import make_excerpts, make_neighbours
from training.data.facts import Needle
from training.data.groups import (
    make_pass_phrase,
    make_same_attribute,
    make_same_entity,
    make_shaped,
    make_single,
)
from training.data.legends import make_legend
from training.data.lists import make_list
from training.data.markdown_tables import make_table
from training.data.phrasing import StyleConfig
from training.data.scenes import make_scene
from training.data.two_hops import make_two_hop

NeedleMaker = Callable[[Random], Needle]
# Wordings as in training, names that training never drew; and wordings that it never used either:
# composed ones, which call the attribute by its noun, and paraphrases of their own, which do not.
SEEN = StyleConfig(wordings="train", held_out=True, refusals=0.0, extras=0.0)
HELD_OUT = replace(SEEN, wordings="held_out", own=0.0)
PARAPHRASED = replace(SEEN, wordings="held_out", own=1.0)
FOR_RELEASE = replace(HELD_OUT, is_release=True)
# Tasks of natural questions; their documents are as long as they are.
PARAGRAPH, ARTICLE = "SQuAD, paragraph alone", "SQuAD, whole article"
OWN_LENGTH = 0
UNANSWERABLE = "unanswerable"
HELD_OUT_NAME = "held-out"  # in the names of tasks of wordings that were never trained on
PARAPHRASES = "paraphrases"
RELEASE_NAME = "release"  # in the names of tasks that are measured only for a release
EXCERPTS = "excerpts"
NEIGHBOURS = "neighbouring excerpts"
_ALL_LENGTHS = (4096, 16_384, 32_768, 65_536, 131_072)


@dataclass(frozen=True)
class EvalTask:
    """A kind of question that is measured by itself: one row of the table for each length.

    Attributes:
        make: draws a needle; its questions of other kinds than these do not count.
        lengths: of the documents, in tokens.
    """

    name: str
    make: NeedleMaker
    kinds: tuple[str, ...]
    lengths: tuple[int, ...] = (16_384,)


def release_tasks() -> tuple[EvalTask, ...]:
    """The tasks of the test set that is opened only for a release."""
    return (
        EvalTask(f"{EXCERPTS}, {RELEASE_NAME}", _draw_excerpts(FOR_RELEASE), ("excerpt",)),
        EvalTask(f"{NEIGHBOURS}, {RELEASE_NAME}", _neighbours(FOR_RELEASE), ("excerpt",)),
    )


def eval_tasks() -> tuple[EvalTask, ...]:
    """The tasks with needles, those at every length first; none that is for a release alone."""
    return (
        EvalTask("single", _single(SEEN), ("single",), _ALL_LENGTHS),
        EvalTask("same attribute", _same_attribute(2, 8), ("same attribute",), _ALL_LENGTHS),
        EvalTask("same entity", _same_entity(SEEN), ("same entity",), _ALL_LENGTHS),
        EvalTask(UNANSWERABLE, _near_misses, (UNANSWERABLE,), _ALL_LENGTHS),
        *_worded(f"{HELD_OUT_NAME} wordings", HELD_OUT),
        *_worded(f"{HELD_OUT_NAME} {PARAPHRASES}", PARAPHRASED),
        EvalTask("rules and events", lambda rng: make_scene(rng, SEEN), ("scene",)),
        EvalTask(EXCERPTS, _draw_excerpts(SEEN), ("excerpt",)),
        EvalTask(f"{EXCERPTS}, {HELD_OUT_NAME}", _draw_excerpts(HELD_OUT), ("excerpt",)),
        EvalTask(NEIGHBOURS, _neighbours(SEEN), ("excerpt",)),
        EvalTask(f"{NEIGHBOURS}, {HELD_OUT_NAME}", _neighbours(HELD_OUT), ("excerpt",)),
        EvalTask("clauses", lambda rng: make_clauses(rng, SEEN), ("predicate",)),
        EvalTask("legends", lambda rng: make_legend(rng, SEEN), ("legend",)),
        EvalTask("32 rivals", _same_attribute(33, 33), ("crowd",)),
        EvalTask("word-pair keys", _shaped(key="word pair"), ("same attribute",)),
        EvalTask("code keys", _shaped(key="code"), ("same attribute",)),
        EvalTask("UUID keys", _shaped(key="uuid"), ("same attribute",)),
        EvalTask("UUID values", _shaped(value="uuid"), ("same attribute",)),
        EvalTask("12-digit values", _shaped(value="digits12"), ("same attribute",)),
        EvalTask("list", lambda rng: make_list(rng, SEEN), ("list",)),
        EvalTask("two keys", _several, ("two keys",)),
        EvalTask("three keys", _several, ("three keys",)),
        EvalTask("table", lambda rng: make_table(rng, SEEN), ("table",)),
        EvalTask("assignment", lambda rng: make_assignments(rng, SEEN), ("assignment",)),
        EvalTask("chain of two", lambda rng: make_chain(rng, SEEN), ("chain",)),
        EvalTask("two hop", lambda rng: make_two_hop(rng, SEEN), ("two hop",)),
        EvalTask("pass phrase, 1 to 8 words", _pass_phrase(1, 8), ("pass phrase",)),
        EvalTask("pass phrase, 32 words", _pass_phrase(32, 32), ("pass phrase",)),
    )


def _worded(name: str, style: StyleConfig) -> tuple[EvalTask, ...]:
    """The tasks of one fact and of several, in a style's wordings."""
    return (
        EvalTask(f"single, {name}", _single(style), ("single",)),
        EvalTask(f"same attribute, {name}", _same_attribute(2, 8, style), ("same attribute",)),
        EvalTask(f"same entity, {name}", _same_entity(style), ("same entity",)),
    )


def _single(style: StyleConfig) -> NeedleMaker:
    return lambda rng: make_single(rng, style)


def _draw_excerpts(style: StyleConfig) -> NeedleMaker:
    return lambda rng: make_excerpts(rng, style)


def _neighbours(style: StyleConfig) -> NeedleMaker:
    return lambda rng: make_neighbours(rng, style, rng.randint(4, 12))


def _same_attribute(least: int, most: int, style: StyleConfig = SEEN) -> NeedleMaker:
    return lambda rng: make_same_attribute(rng, style, rng.randint(least, most))


def _same_entity(style: StyleConfig) -> NeedleMaker:
    return lambda rng: make_same_entity(rng, style, rng.randint(2, 8))


def _shaped(key: str = "", value: str = "") -> NeedleMaker:
    return lambda rng: make_shaped(rng, SEEN, rng.randint(2, 8), key, value)


def _several(rng: Random) -> Needle:
    return make_same_attribute(rng, replace(SEEN, extras=1.0), rng.randint(3, 8))


def _pass_phrase(least: int, most: int) -> NeedleMaker:
    return lambda rng: make_pass_phrase(rng, SEEN, rng.randint(least, most))


def _near_misses(rng: Random) -> Needle:
    missing = replace(SEEN, refusals=1.0)
    makers: tuple[NeedleMaker, ...] = (
        lambda rng: make_single(rng, missing),
        lambda rng: make_same_attribute(rng, missing, rng.randint(2, 8)),
        lambda rng: make_same_entity(rng, missing, rng.randint(2, 6)),
        lambda rng: make_scene(rng, missing),
    )
    return rng.choice(makers)(rng)
