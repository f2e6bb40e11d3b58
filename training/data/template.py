"""Wording templates: text with choices in square brackets and slots in braces."""

import re
from collections.abc import Mapping
from functools import cache
from random import Random

_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_SLOT = re.compile(r"\{([A-Za-z0-9_]+)\}")


@cache
def _parts(template: str) -> tuple[tuple[str, ...], ...]:
    pieces = _CHOICE.split(template)  # text, choices, text, choices, ...
    return tuple(
        tuple(piece.split("|")) if place % 2 else (piece,) for place, piece in enumerate(pieces)
    )


def expand(template: str, rng: Random, slots: Mapping[str, str]) -> str:
    """Choose one option of every `[a|b]` and fill every `{slot}` once.

    Raises: KeyError if a slot has no value.
    """
    if "[" not in template:
        return _SLOT.sub(lambda match: slots[match.group(1)], template)
    pick = rng.random
    text = "".join(
        options[0] if len(options) == 1 else options[int(pick() * len(options))]
        for options in _parts(template)
    )
    return _SLOT.sub(lambda match: slots[match.group(1)], text)


def slots_of(template: str) -> frozenset[str]:
    """Names of the slots that a template fills."""
    return frozenset(_SLOT.findall(template))


def words_of(text: str) -> frozenset[str]:
    """The words of a list with spaces between them."""
    return frozenset(text.split())


def capitalise(text: str) -> str:
    """Raise the first letter; leave the rest as it is."""
    return text[:1].upper() + text[1:]


def lower_first(text: str) -> str:
    """Lower the first letter unless the first word is a name, an acronym or `I`."""
    first = text.split(" ", 1)[0]
    is_plain = first[:1].isupper() and first[1:].islower() and first.lower() in _SENTENCE_WORDS
    return text[:1].lower() + text[1:] if is_plain else text


_SENTENCE_WORDS = words_of(
    """
    the a an what who whom whose when where which how at in on by for from to of under with is
    are was were does do did can could give tell state name find please within until after as it
    its there this each every all one no anyone staff up look about regarding concerning remind
    let help just copy we my someone show say spell type put write report return extract quote
    recall provide retrieve repeat read explain will would may has have what's might if think
    take i'd identify fill complete answer somewhere you and so now list enumerate print resolve
    value collect go without first starting count
    """
)
