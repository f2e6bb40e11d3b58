"""Words in the place of others: synonyms, as a question seldom repeats the words of its text, and
any words at all, so that what is answered must be copied.
"""

import re
from collections.abc import Mapping
from functools import cache
from random import Random

from training.data.templates import word_lists
from training.data.text import function_words
from training.data.verbs import verb_of

_WORD = re.compile(r"\b[a-z-]{3,}\b")


def reword(text: str, rng: Random, share: float) -> str:
    """Exchange a share of the words for which another is known; names stay."""

    def exchange(match: re.Match[str]) -> str:
        others = _others().get(match.group())
        return rng.choice(others) if others and rng.random() < share else match.group()

    return _WORD.sub(exchange, text)


def replace_word(word: str, lexicon: tuple[str, ...], rng: Random) -> str:
    """Another word of the lexicon with its ending; names, short and function words stay."""
    is_replaceable = 5 <= len(word) <= 12 and word.islower()
    if not is_replaceable or word in function_words("never replaced"):
        return word
    return rng.choice(_by_ending(lexicon).get(word[-2:], lexicon))


@cache
def _by_ending(lexicon: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
    endings: dict[str, list[str]] = {}
    for word in lexicon:
        endings.setdefault(word[-2:], []).append(word)
    return {ending: tuple(words) for ending, words in endings.items()}


@cache
def _others() -> Mapping[str, tuple[str, ...]]:
    """The words that may take each word's place."""
    found: dict[str, set[str]] = {}
    for group in _forms():
        for word in group:
            found.setdefault(word, set()).update(other for other in group if other != word)
    return {word: tuple(sorted(others)) for word, others in found.items() if others}


def _forms() -> list[list[str]]:
    """Groups of words of one form: all past tenses, all plurals."""
    groups = _groups("fixed")
    for nouns in _groups("nouns"):
        groups += [nouns, [_plural(noun) for noun in nouns]]
    for bases in _groups("verbs"):
        verbs = [verb_of(base) for base in bases]
        groups += [
            [verb.base for verb in verbs],
            [verb.third for verb in verbs],
            [verb.past for verb in verbs],
            [verb.participle for verb in verbs],
            [verb.gerund for verb in verbs],
        ]
    return groups


def _groups(name: str) -> list[list[str]]:
    return [group.split() for group in word_lists("synonyms")[name]]


def _plural(noun: str) -> str:
    if noun in ("person", "child"):
        return {"person": "people", "child": "children"}[noun]
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return noun + ("es" if noun.endswith(("s", "sh", "ch", "x")) else "s")
