"""Sentences of plain text."""

import re
from collections.abc import Iterator

GAP = re.compile(r"(?<=[.!?])\s+|(?<=[.!?][\"')\]])\s+|\n+")


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """Half-open character spans of sentences or lines, the white space between them left out."""
    start = 0
    for gap in GAP.finditer(text):
        if gap.start() > start:
            yield start, gap.start()
        start = gap.end()
    if start < len(text):
        yield start, len(text)
