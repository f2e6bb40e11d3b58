"""What belongs to training and what is kept for evaluation."""

from collections.abc import Callable
from functools import cache
from zlib import crc32

from training.data.draws import draw_until

HELD_OUT_BOOKS = (
    "frankenstein",
    "the-voyage-of-the-beagle",
    "the-adventures-of-sherlock-holmes",
    "the-common-law",
)
_HELD_OUT_SHARE = 8  # one name in eight is never trained on
_PATTERN_SHARE = 5  # one wording in five is never trained on


def is_held_out(name: str) -> bool:
    """Whether an entity's name is kept for evaluation (by its checksum, so for ever)."""
    return crc32(name.lower().encode()) % _HELD_OUT_SHARE == 0


def draw_name(make: Callable[[], str], *, held_out: bool) -> str:
    """Draw names until one falls on the wanted side of the split."""
    return draw_until(lambda name: is_held_out(name) == held_out, make)


@cache
def patterns_for(patterns: tuple[str, ...], which: str) -> tuple[str, ...]:
    """Wordings for `train`, `held_out` or `all`; what is never trained on is empty at times."""
    if which == "all":
        return patterns
    kept = tuple(p for p in patterns if crc32(p.encode()) % _PATTERN_SHARE == 0)
    if len(kept) == len(patterns):  # a short list must leave something to train on
        kept = kept[1:]
    return kept if which == "held_out" else tuple(p for p in patterns if p not in kept)
