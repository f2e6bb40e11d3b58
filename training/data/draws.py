"""Drawing again until something fits: never for ever."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_TRIES = 300  # what fits one time in eight is missed once in 10^17 times


class NothingFits(Exception):
    """Nothing that was drawn fits: an example is given up."""


def draw_until(fits: Callable[[T], bool], *makers: Callable[[], T]) -> T:
    """Draw what fits by the first maker; where it never makes any, by the next one.

    Raises: NothingFits after 300 draws of each.
    """
    for make in makers:
        for _ in range(_TRIES):
            if fits(drawn := make()):
                return drawn
    raise NothingFits(f"none of {_TRIES} draws fits")
