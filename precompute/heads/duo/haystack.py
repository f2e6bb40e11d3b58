"""Text to hide passkeys in: made up, or from files."""

from dataclasses import dataclass
from pathlib import Path
from random import Random

from common.errors import InvalidInput


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


def _list(text: str) -> tuple[str, ...]:
    return tuple(text.split())


NOUNS = _list(
    "anchor apple basket bell bird boat bottle bread bridge broom button cabin candle carpet cart "
    "castle chair clock coat corner cotton cup desk door drawer engine farmer feather fence field "
    "fire flower forest garden gate glass hammer harbour hat hill horse house island kettle key "
    "kitchen ladder lake lamp leaf letter lion map market meadow mill mirror morning mountain "
    "needle orchard owl paint paper path pencil piano plate pocket pond queen rain ribbon river "
    "road roof rope sailor shadow ship shoe shop silver snow soldier spoon spring station stone "
    "storm summer table tailor teacher thread tower train tree valley violin wagon wall water "
    "wheel whistle window winter wool"
)
ADJECTIVES = _list(
    "ancient broad bright brown careful cheerful clean cold dark deep distant dusty early empty "
    "gentle golden green grey heavy hollow honest late little long lonely narrow old pale patient "
    "plain proud quiet quick round rough short silent simple slow small soft steep strange tall "
    "thin warm white wide wooden young"
)
VERBS = _list(
    "admired borrowed brought carried cleaned closed counted covered drew followed forgot found "
    "guarded held hid kept knew left lifted lost loved measured mended missed moved noticed opened "
    "painted passed praised pulled pushed reached remembered saw showed sold sought stood touched "
    "turned wanted watched"
)
PLACES = _list(
    "above across against along among around behind beside beyond near over past round through "
    "towards under"
)
SYLLABLES = _list(
    "ba bel bor cal cor da del dor el fa fen gar gil ha hel is ka kel la lin lo lun ma mar mi mor "
    "na nel no or pa pel qui ra rin ro sa sel so ta tel tor ul va ver vi wen yor za zel"
)
