"""Text to hide passkeys in: made up, or from files."""

from dataclasses import dataclass
from pathlib import Path
from random import Random

from common.errors import InvalidInput
from precompute.heads.duo.words import ADJECTIVES, NOUNS, PLACES, VERBS


@dataclass(frozen=True)
class Haystack:
    """A source of text; without a text of its own it makes sentences up."""

    text: str = ""

    def draw(self, num_chars: int, rng: Random) -> str:
        """A stretch of about that many characters; a text that is too short begins again."""
        if not self.text:
            return _sentences(num_chars, rng)
        start = rng.randrange(len(self.text))
        start = self.text.find(" ", start) + 1  # a word's first letter, or the text's
        found = self.text[start : start + num_chars]
        while len(found) < num_chars:
            found += f"\n{self.text}"
        return found[:num_chars]


def open_haystack(path: str) -> Haystack:
    """Read a text file, or a folder's text files in the order of their names.

    Raises: InvalidInput if there is no text.
    """
    if not path:
        return Haystack()
    place = Path(path)
    files = (
        [place] if place.is_file() else sorted(place.rglob("*.txt")) + sorted(place.rglob("*.md"))
    )
    text = "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in files)
    if not text.strip():
        raise InvalidInput(f"There is no text in '{path}' to hide passkeys in (*.txt, *.md).")
    return Haystack(text)


def _sentences(num_chars: int, rng: Random) -> str:
    parts, length = [], 0
    while length < num_chars:
        parts.append(_sentence(rng))
        length += len(parts[-1]) + 1
    return " ".join(parts)


def _sentence(rng: Random) -> str:
    def thing() -> str:
        return f"the {rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}"

    sentence = f"{thing()} {rng.choice(VERBS)} {thing()}"
    if rng.random() < 0.5:
        sentence += f" {rng.choice(PLACES)} {thing()}"
    if rng.random() < 0.3:
        sentence += f", and {thing()} {rng.choice(VERBS)} {thing()}"
    return f"{sentence[0].upper()}{sentence[1:]}."
