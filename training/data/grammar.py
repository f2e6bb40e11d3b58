"""Patterns derived from a grammar of wordings (tables/productions.txt), none near what is held out.

A pool is derived once, with a seed of its own, so that a draw costs no more than one from a list
and every pattern can be checked. A pattern is too near a held-out one if they have a run of four
words in common, or if it holds the whole of a shorter one; slots count as words, and a noun
phrase for the value is one word at one look and all of its words at another.
"""

import re
from collections.abc import Iterator
from functools import cache
from itertools import product
from random import Random

from training.data.split import patterns_for
from training.data.templates import CHOICE, draw_word, options_of, template_list, template_lists
from training.data.verbs import verb_of

RUN = 4
_POOLS = {"statement": 16_000, "question": 16_000, "noun": 2000}
_SMALL_POOL = 1500
_OPEN, _CLOSE = "\x02", "\x03"  # around a noun phrase while a pattern is derived
_REFERENCE = re.compile(r"<([a-z ]+)>")
_VERB_FORM = re.compile(r"\{(base|s|ed|pp)\}")
_PHRASE = re.compile(f"{_OPEN}[^{_CLOSE}]*{_CLOSE}")
_WORD = re.compile(r"\{[A-Za-z]+\}|[a-z0-9']+")
_STOPS = re.compile(r"\s*,(?=\s*[,.?:;)])|\s+(?=[,.?;])")
_START = re.compile(r"(?<=[\w}]{3}[.?!] )[a-z]")
_PRODUCTIONS = {  # by the type of a question
    "who": "who type", "when": "when type", "clock": "clock type", "where": "where type",
    "how much": "amount type", "how many": "amount type", "share": "amount type",
    "extent": "amount type", "how long": "length type", "spelling": "spelling type",
    "colour": "colour type",
}  # fmt: skip


def draw_pattern(name: str, rng: Random) -> str:
    """Draw one of a production's patterns: its slots are {E}, {A}, {V} and {W}."""
    pool = patterns_of(name)
    return pool[int(rng.random() * len(pool))]


def draw_typed_question(kind: str, rng: Random) -> str:
    """Draw a question of a type: "who", "when", "how many"; of any, where it has no production."""
    return draw_pattern(_PRODUCTIONS.get(kind, "question"), rng)


@cache
def patterns_of(name: str) -> tuple[str, ...]:
    """All patterns of a production that training may draw."""
    rng, size = Random(name), _POOLS.get(name, _SMALL_POOL)
    found: dict[str, None] = {}
    for _ in range(4 * size):
        marked = _derive(name, rng)
        if is_far(_PHRASE.sub("{NP}", marked)):
            text = _tidy(marked)
            if is_far(text):
                found[text] = None
        if len(found) == size:
            break
    return tuple(found)


def is_far(text: str) -> bool:
    """Whether a pattern is near no held-out one."""
    found = tokens_of(text)
    runs, short, whole = _held_out()
    if found in whole or not runs.isdisjoint(runs_of(found, RUN)):
        return False
    return all(short.isdisjoint(runs_of(found, size)) for size in range(2, RUN))


def tokens_of(text: str) -> tuple[str, ...]:
    """A pattern's words and slots, without case and marks."""
    text = text.replace("the {A} of {E}", "{NP}")
    parts = re.split(r"(\{[A-Za-z]+\})", text)
    return tuple(_WORD.findall("".join(p if p.startswith("{") else p.lower() for p in parts)))


def runs_of(tokens: tuple[str, ...], size: int) -> Iterator[tuple[str, ...]]:
    """Every run of so many tokens."""
    return (tokens[start : start + size] for start in range(len(tokens) - size + 1))


def held_out_patterns() -> Iterator[str]:
    """All generic templates that are never trained on, every choice made."""
    for table in ("frames", "wordings"):
        for pool in template_lists(table).values():
            for pattern in patterns_for(pool, "held_out"):
                yield from ("".join(made) for made in product(*options_of(pattern)))


@cache
def _held_out() -> tuple[frozenset[tuple[str, ...]], ...]:
    """Runs of four tokens, whole shorter patterns with words, and all whole patterns."""
    whole = frozenset(map(tokens_of, held_out_patterns()))
    runs = frozenset(run for tokens in whole for run in runs_of(tokens, RUN))
    short = frozenset(
        tokens for tokens in whole
        if 1 < len(tokens) < RUN and not all(one.startswith("{") for one in tokens)
    )  # fmt: skip
    return runs, short, whole


def _derive(name: str, rng: Random) -> str:
    """One text of a production; noun phrases stand between marks."""
    lines = template_list("productions", name)
    text = lines[int(rng.random() * len(lines))]
    text = CHOICE.sub(lambda match: rng.choice(match[1].split("|")), text)
    text = _REFERENCE.sub(lambda match: _derive(match[1], rng), text)
    text = _VERB_FORM.sub(lambda match: _verb_form(match[1], rng), text)
    return f"{_OPEN}{text}{_CLOSE}" if name == "noun" else text


def _verb_form(form: str, rng: Random) -> str:
    verb = verb_of(draw_word("actions", rng))
    forms = {"base": verb.base, "s": verb.third, "ed": verb.past, "pp": verb.participle}
    return forms[form]


def _tidy(marked: str) -> str:
    text = marked.replace(_OPEN, "").replace(_CLOSE, "")
    text = _STOPS.sub("", re.sub(r" {2,}", " ", text))
    return _START.sub(lambda match: match[0].upper(), text)
