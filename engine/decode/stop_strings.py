"""Strings at which an answer ends, found while its text grows."""

from collections.abc import Sequence


class StopStrings:
    """Lets text through up to the first stop string, which may come in pieces.

    Args:
        stops: none of them empty.

    Attributes:
        found: whether a stop string has come; nothing is let through after it.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.found = False

    def push(self, piece: str) -> str:
        """Add text; return what certainly comes before any stop string."""
        if self.found or not self._stops:
            return "" if self.found else piece
        text = self._held + piece
        shown = self.cut(text)
        self.found = len(shown) < len(text)
        held = 0 if self.found else self._longest_beginning(shown)
        self._held = shown[len(shown) - held :]
        return shown[: len(shown) - held]

    def flush(self) -> str:
        """Return the text that was held back, as no stop string comes any more."""
        rest, self._held = self._held, ""
        return rest

    def cut(self, text: str) -> str:
        """The text up to its first stop string."""
        places = (text.find(stop) for stop in self._stops)
        return text[: min((place for place in places if place >= 0), default=len(text))]

    def _longest_beginning(self, text: str) -> int:
        """Characters at the end of a text with which a stop string begins."""
        longest = max(map(len, self._stops), default=1) - 1
        return next(
            (
                length
                for length in range(min(longest, len(text)), 0, -1)
                if any(stop.startswith(text[-length:]) for stop in self._stops)
            ),
            0,
        )
