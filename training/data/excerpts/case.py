"""Cases of an excerpt: a value for each of its slots."""

import re
from collections.abc import Mapping
from random import Random

from training.data.draws import draw_until
from training.data.excerpts.excerpt import Excerpt
from training.data.exchange import exchange_word
from training.data.slots import draw_slot
from training.data.speech import Voice

_STRANGE_SHARE = 0.25  # of a slot's own options, in training: with strange words, to be copied
_EXCHANGED_SHARE = 0.6  # of the words of these
_WORD = re.compile(r"\b[a-z]+\b")
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
        case[name] = _draw_other(excerpt, name, taken, rng, voice)
    return case


def _draw_other(
    excerpt: Excerpt, name: str, taken: tuple[str, ...], rng: Random, voice: Voice
) -> str:
    return draw_until(lambda value: value not in taken, lambda: _draw(excerpt, name, rng, voice))


def _draw(excerpt: Excerpt, name: str, rng: Random, voice: Voice) -> str:
    if name in excerpt.options:
        return _strange(rng.choice(excerpt.options[name]), rng, voice)
    return draw_slot(excerpt.kinds[name], rng, voice)


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
