"""Plants of assignments and of chains of variables: `x = 5; y = x; what is y?`."""

from itertools import pairwise
from random import Random

from training.data import values, words
from training.data.draws import draw_until
from training.data.facts import Chunk, Plant, Question, claim
from training.data.lines import (
    VALUE_KINDS,
    config_block,
    draw_line_key,
    question_for_line,
    question_for_reference,
)
from training.data.speech import Voice
from training.data.template import capitalise, expand
from training.data.wordings import REFUSAL

ROOTS = (
    "{K} = {V}",
    "{K} := {V}",
    "let {K} = {V}",
    "var {K} = {V};",
    "{K} is {V}.",
    "{K} is set to {V}.",
    "set {K} to {V}.",
    "the value of {K} is {V}.",
    "{K} holds {V}.",
    "let {K} be {V}.",
    "{K} gets {V}.",
    "{K} starts as {V}.",
    "we put {V} into {K}.",
    "const {K} = {V}",
    "int {K} = {V};",
    "{K} <- {V}",
    "define {K} as {V}.",
    "store {V} in {K}.",
)
LINKS = (
    "{K} = {T}",
    "{K} := {T}",
    "let {K} = {T}",
    "var {K} = {T};",
    "{K} is the same as {T}.",
    "{K} is set to the value of {T}.",
    "set {K} to {T}.",
    "the value of {K} is that of {T}.",
    "{K} holds whatever {T} holds.",
    "let {K} be equal to {T}.",
    "{K} gets the value of {T}.",
    "{K} is a copy of {T}.",
    "we copy {T} into {K}.",
    "const {K} = {T}",
    "int {K} = {T};",
    "{K} <- {T}",
    "define {K} as {T}.",
    "store the value of {T} in {K}.",
)


def plant_config(rng: Random, voice: Voice) -> Plant:
    """Assignments in the syntax of a configuration file, some of them chained."""
    block = config_block(rng)
    asked = rng.sample(sorted(block.values), min(len(block.values), rng.randint(1, 6)))
    questions = [
        Question(question_for_line(key, rng, voice), block.values[key], "assignment")
        for key in asked
    ]
    if block.chained:
        key, value, target = block.chained
        questions.append(Question(question_for_line(key, rng, voice), value, "chain"))
        if rng.random() < 0.5:
            questions.append(Question(question_for_line(target, rng, voice), value, "assignment"))
    if rng.random() < voice.refusals:
        text = question_for_line(block.missing, rng, voice)
        questions.append(Question(text, REFUSAL, "unanswerable"))
    chunk = Chunk(block.text, is_block=True)
    return Plant((chunk,), tuple(questions), claim(*block.values, block.missing))


def plant_chain(rng: Random, voice: Voice) -> Plant:
    """One to three chains of variables in one notation; every variable is asked for."""
    style = rng.randrange(len(ROOTS)) if rng.random() < 0.8 else None
    chains = [_chain(rng) for _ in range(rng.choice((1, 2, 2, 3)))]
    names: set[str] = set()
    lines: list[str] = []
    questions: list[Question] = []
    for keys, value in chains:
        if names & set(keys):
            continue
        names |= set(keys)
        lines += _lines(keys, value, style, rng)
        questions += _questions(keys, value, rng, voice)
    missing = draw_line_key(rng)
    if missing not in names and rng.random() < voice.refusals:
        names.add(missing)
        text = question_for_line(missing, rng, voice)
        questions.append(Question(text, REFUSAL, "unanswerable"))
    return Plant(_chunks(lines, rng), tuple(questions), claim(*names))


def _chain(rng: Random) -> tuple[list[str], str]:
    """Two to four variables, each defined by the one before, and the first one's value."""
    length = rng.choices((2, 3, 4), (6, 3, 1))[0]
    make = rng.choice((_letter, _word, draw_line_key, draw_line_key))
    keys: list[str] = []
    for _ in range(length):
        keys.append(draw_until(lambda key: key not in keys, lambda: make(rng)))
    return keys, values.draw(rng.choice(VALUE_KINDS), rng)


def _letter(rng: Random) -> str:
    return rng.choice("bcdefghjkmnpqrstuvwxyz") + rng.choice(("", "", "1", "2", "3", "_0"))


def _word(rng: Random) -> str:
    return rng.choice(words.CODE_NOUNS + words.GREEK)


def _lines(keys: list[str], value: str, style: int | None, rng: Random) -> list[str]:
    lines = [_say(ROOTS, style, rng, {"K": keys[0], "V": value})]
    for target, key in pairwise(keys):
        lines.append(_say(LINKS, style, rng, {"K": key, "T": target}))
    return lines if rng.random() < 0.6 else lines[::-1]


def _say(pool: tuple[str, ...], style: int | None, rng: Random, slots: dict[str, str]) -> str:
    return expand(pool[rng.randrange(len(pool)) if style is None else style], rng, slots)


def _questions(keys: list[str], value: str, rng: Random, voice: Voice) -> list[Question]:
    found = []
    for place, key in enumerate(keys):
        kind = ("assignment", "chain", "long chain", "long chain")[place]
        found.append(Question(question_for_line(key, rng, voice), value, kind))
    place = rng.randrange(1, len(keys))
    if rng.random() < 0.3:
        text = question_for_reference(keys[place], rng, voice)
        found.append(Question(text, keys[place - 1], "reference"))
    return found


def _chunks(lines: list[str], rng: Random) -> tuple[Chunk, ...]:
    """Side by side, or each line for itself."""
    is_prose = all(line.endswith(".") for line in lines)
    if rng.random() < 0.55:
        mark = rng.choice((" ", "\n")) if is_prose else rng.choice(("\n", "\n", "; "))
        text = mark.join(_begin(line) if is_prose else line for line in lines)
        return (Chunk(text + ("" if is_prose else "\n"), is_block=not is_prose),)
    thread = rng.getrandbits(31) + 1
    return tuple(
        Chunk(_begin(line) if is_prose else line, is_block=not is_prose, thread=thread)
        for line in lines
    )


def _begin(line: str) -> str:
    """Start a sentence with a capital, unless it starts with a variable."""
    starts_plainly = line.split(" ", 1)[0] in ("set", "the", "let", "we", "define", "store")
    return capitalise(line) if starts_plainly else line
