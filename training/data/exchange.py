"""Words put in the place of others, so that what is answered must be copied."""

from functools import cache
from random import Random

from training.data.template import words_of

_KEPT = words_of(
    """
    about above after again against along already although always among another around became
    because become before began being below between beyond called could during either every first
    found fourth given having known least might month months never often other others person place
    rather second several shall should since still their theirs there these thing things third those
    though three through times today together toward towards under until using which while whose
    within without would years seven eight hundred thousand million hours minutes weeks people
    number amount reason according
    """
)


def exchange_word(word: str, lexicon: tuple[str, ...], rng: Random) -> str:
    """Another word with the same ending; names, short words and words of grammar stay."""
    if not _is_exchangeable(word):
        return word
    return rng.choice(_by_ending(lexicon).get(word[-2:], lexicon))


@cache
def _by_ending(lexicon: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    endings: dict[str, list[str]] = {}
    for word in lexicon:
        endings.setdefault(word[-2:], []).append(word)
    return {ending: tuple(words) for ending, words in endings.items()}


def _is_exchangeable(word: str) -> bool:
    return 5 <= len(word) <= 12 and word.islower() and word not in _KEPT
