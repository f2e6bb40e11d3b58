"""Plain text files in any encoding."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from common.passages import Block, BlockKind
from ingest.encoding import read_text
from ingest.limits import Limits
from ingest.text import BULLET, DocumentText, clean

WIDEST_COLUMN = 120  # characters; longer lines were not broken to fit a width
ITEM = re.compile(r"\s*(?:[-*+\u2022]|\(?(?:\d{1,3}|[a-z]|[ivx]{1,5})[.)])\s+\S")
HEADING = re.compile(
    r"\s*(?:chapter|book|part|section|appendix|act|scene|article|letter|volume)\s+"
    r"(?:[ivxlcdm]+|\d+|the\s+\w+|[a-z])\b.{0,80}",
    re.IGNORECASE,
)
LONGEST_TITLE = 70  # characters of a line in capitals that is a heading


@dataclass(frozen=True)
class TxtExtractor:
    """Returns the text as it is; form feeds are not treated as page breaks."""

    def extract(self, path: Path) -> DocumentText:
        """Return the text of the file at `path`, which has no pages."""
        text = clean(read_text(path))
        return DocumentText(text, (), tuple(_blocks(text)))


def _blocks(text: str) -> Iterator[Block]:
    """Yield the blocks between empty lines, divided where a line was not broken to fit a width."""
    run: list[tuple[int, int]] = []
    start = 0
    for line in text.split("\n"):
        end = start + len(line)
        if line.strip():
            run.append((start, end))
        elif run:
            yield from _blocks_of_run(text, run)
            run = []
        start = end + 1
    if run:
        yield from _blocks_of_run(text, run)


def _blocks_of_run(text: str, run: list[tuple[int, int]]) -> Iterator[Block]:
    """Yield the blocks of lines that follow each other without an empty line."""
    width = max(end - start for start, end in run)
    first = 0
    for index in range(1, len(run) + 1):
        if index < len(run) and _is_broken(text, run[index - 1], run[index], width):
            continue
        yield _block(text, run[first][0], run[index - 1][1], is_alone=len(run) == 1)
        first = index


def _is_broken(text: str, line: tuple[int, int], following: tuple[int, int], width: int) -> bool:
    """Return whether a line ends because the next one's first word had no room in the width."""
    words = text[following[0] : following[1]]
    if width > WIDEST_COLUMN or ITEM.match(words):
        return False
    return len(text[line[0] : line[1]].rstrip()) + 1 + len(words.split(None, 1)[0]) > width


def _block(text: str, start: int, end: int, *, is_alone: bool) -> Block:
    words = text[start:end]
    if ITEM.match(words):
        bullet = BULLET.match(words)
        return Block(BlockKind.LIST_ITEM, start + (bullet.end() if bullet else 0), end)
    letters = [char for char in words if char.isalpha()]
    is_loud = len(words) <= LONGEST_TITLE and len(letters) > 3 and words == words.upper()
    if is_alone and (HEADING.fullmatch(words) or (is_loud and words.lower() != words)):
        return Block(BlockKind.HEADING, start, end, 1)
    return Block(BlockKind.PARAGRAPH, start, end)


def build(_limits: Limits) -> TxtExtractor:
    """Make the extractor; this is the plug-in's entry point."""
    return TxtExtractor()
