"""Cases of an excerpt: a value for each of its slots."""

import re
from collections.abc import Mapping
from random import Random

from reader.data import values
from reader.data.draws import draw_until
from reader.data.entities import draw_entity
from reader.data.excerpts.excerpt import Excerpt
from reader.data.exchange import exchange_word
from reader.data.speech import Voice

_STRANGE_SHARE = 0.25  # of a slot's own options, in training: with strange words, to be copied
_EXCHANGED_SHARE = 0.6  # of the words of these
_WORD = re.compile(r"\b[a-z]+\b")
ENTITIES = {"object": "thing", "event": "project", "site": "site", "service": "service"}
Case = Mapping[str, str]


def draw_cases(excerpt: Excerpt, count: int, rng: Random, voice: Voice) -> list[Case]:
    """Cases of an excerpt: no two values alike within one, and no two keys among them.

    Raises: NothingFits if a slot has too few options.
    """
    cases: list[Case] = []
    for _ in range(count):
        cases.append(_draw_case(excerpt, [case.get(excerpt.key, "") for case in cases], rng, voice))
    return cases


def _draw_case(excerpt: Excerpt, keys: list[str], rng: Random, voice: Voice) -> Case:
    case: dict[str, str] = {}
    for name in (*excerpt.options, *excerpt.kinds):
        taken = (*case.values(), *(keys if name == excerpt.key else ()))
        case[name] = draw_until(
            lambda value, taken=taken: value not in taken,  # type: ignore[misc]
            lambda name=name: _draw(excerpt, name, rng, voice),  # type: ignore[misc]
        )
    return case


def _draw(excerpt: Excerpt, name: str, rng: Random, voice: Voice) -> str:
    if name in excerpt.options:
        return _strange(rng.choice(excerpt.options[name]), rng, voice)
    kind = excerpt.kinds[name]
    if kind in ENTITIES:
        return draw_entity(ENTITIES[kind], rng, held_out=voice.held_out).name
    return values.draw(kind, rng, held_out=voice.held_out)


def _strange(option: str, rng: Random, voice: Voice) -> str:
    """An option, now and then with words that nobody would expect there."""
    if not voice.lexicon or rng.random() > _STRANGE_SHARE:
        return option
    return _WORD.sub(
        lambda word: (
            exchange_word(word.group(), voice.lexicon, rng)
            if rng.random() < _EXCHANGED_SHARE
            else word.group()
        ),
        option,
    )
