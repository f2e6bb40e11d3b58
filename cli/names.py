"""Names that were not found, and those that were probably meant."""

from collections.abc import Iterable
from difflib import SequenceMatcher

MOST_SHOWN = 3
LEAST_ALIKE = 0.55


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that are most like one, the most alike first.

    A name that contains the given one, or is contained in it, counts as more alike than others.
    """
    given = name.casefold()
    rated = [(_likeness(given, one.casefold()), one) for one in dict.fromkeys(known)]
    rated.sort(key=lambda pair: (-pair[0], pair[1]))
    return [one for likeness, one in rated[:MOST_SHOWN] if likeness >= LEAST_ALIKE]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a sentence with a blank before it that names the nearest; empty if there are none."""
    found = [f"'{one}'" for one in nearest(name, known)]
    if not found:
        return ""
    *others, last = found
    return f" Did you mean {', '.join(others)} or {last}?" if others else f" Did you mean {last}?"


def _likeness(given: str, known: str) -> float:
    if given and (given in known or known in given):
        return 1.0 + min(len(given), len(known)) / max(len(given), len(known))
    return SequenceMatcher(None, given, known).ratio()
