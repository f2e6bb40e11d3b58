"""Forms of verbs: what a question needs in order to turn a sentence around."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from training.data.templates import word_list

_VOWELS = "aeiou"


@dataclass(frozen=True)
class Verb:
    """A verb's forms: to grind, grinds, ground, (has) ground, grinding."""

    base: str
    third: str
    past: str
    participle: str
    gerund: str


@cache
def irregular_verbs() -> Mapping[str, tuple[str, str]]:
    """Past tense and participle of the irregular verbs, by their base."""
    rows = (row.split() for row in word_list("irregular verbs"))
    return {base: (past, participle) for base, past, participle in rows}


@cache
def _bases() -> Mapping[str, str]:
    return {past: base for base, (past, _) in irregular_verbs().items() if base != "be"}


def verb_of(base: str) -> Verb:
    """All forms of a verb, by rule unless it is a known exception."""
    past, participle = irregular_verbs().get(base, (_add(base, "ed"),) * 2)
    return Verb(base, third_person(base), past, participle, _add(base, "ing"))


def third_person(base: str) -> str:
    """The form for he, she and it."""
    if base in ("be", "have"):
        return {"be": "is", "have": "has"}[base]
    if base.endswith("y") and base[-2] not in _VOWELS:
        return f"{base[:-1]}ies"
    return base + ("es" if base.endswith(("s", "sh", "ch", "x", "z", "o")) else "s")


def base_of_past(word: str) -> str | None:
    """The base of a past tense, as far as its looks tell; nothing for other words."""
    if word in _bases():
        return _bases()[word]
    if len(word) < 5 or not word.endswith("ed"):
        return None
    stem = word[:-2]
    if stem.endswith("i"):
        return f"{stem[:-1]}y"
    if stem[-1] == stem[-2] and stem[-1] in "bdgmnprt":
        return stem[:-1]
    is_short = stem[-1] in "cgsuvz" or (stem[-1] not in "wxyrlnd" and _is_open(stem))
    return f"{stem}e" if is_short else stem


def _is_open(stem: str) -> bool:
    """One vowel before one consonant: hop-, but not help- or heap-."""
    return (
        len(stem) > 2
        and stem[-1] not in _VOWELS
        and stem[-2] in _VOWELS
        and stem[-3] not in _VOWELS
    )


def _add(base: str, tail: str) -> str:
    if base.endswith("e") and not base.endswith(("ee", "oe", "ye")):
        return base[:-1] + tail
    if base.endswith("y") and base[-2] not in _VOWELS and tail == "ed":
        return f"{base[:-1]}ied"
    num_vowels = sum(letter in _VOWELS for letter in base)
    is_doubled = num_vowels == 1 and base[-1] not in "wxy" and _is_open(base)
    return (base + base[-1] if is_doubled else base) + tail
