"""What belongs to training and what is kept for evaluation; drawing until something fits."""

from collections.abc import Callable
from functools import cache
from typing import TypeVar
from zlib import crc32

T = TypeVar("T")
HELD_OUT_BOOKS = (
    "frankenstein",
    "the-voyage-of-the-beagle",
    "the-adventures-of-sherlock-holmes",
    "the-common-law",
)
_HELD_OUT_SHARE = 8  # one name in eight is never trained on
_PATTERN_SHARE = 5  # one template in five is never trained on
_TRIES = 300  # what fits one time in eight is missed once in 10^17 times


class NothingFits(Exception):
    """Nothing that was drawn fits: the example is given up."""


def draw_until(fits: Callable[[T], bool], *makers: Callable[[], T]) -> T:
    """Draw what fits by the first maker; where it never makes any, by the next one.

    Raises: NothingFits after 300 draws of each.
    """
    for make in makers:
        for _ in range(_TRIES):
            if fits(drawn := make()):
                return drawn
    raise NothingFits(f"none of {_TRIES} draws fits")


def is_held_out(name: str) -> bool:
    """Whether a name is kept for evaluation: by its checksum, so it always will be."""
    return crc32(name.lower().encode()) % _HELD_OUT_SHARE == 0


def draw_name(make: Callable[[], str], *, held_out: bool) -> str:
    """Draw names until one falls on the wanted side of the split."""
    return draw_until(lambda name: is_held_out(name) == held_out, make)


@cache
def patterns_for(patterns: tuple[str, ...], which: str) -> tuple[str, ...]:
    """Templates for `train`, `held_out` or `all`; those that are held out may be none."""
    if which == "all":
        return patterns
    kept = tuple(p for p in patterns if crc32(p.encode()) % _PATTERN_SHARE == 0)
    if len(kept) == len(patterns):  # a short list must leave something to train on
        kept = kept[1:]
    return kept if which == "held_out" else tuple(p for p in patterns if p not in kept)
