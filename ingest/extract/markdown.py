"""Markdown files, whose source stays as it is: its headings, lists and tables read well."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from common.passages import Block, BlockKind
from ingest.encoding import read_text
from ingest.limits import Limits
from ingest.text import BULLET, DocumentText, clean

FRONT_MATTER = re.compile(r"\ufeff?---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
QUOTE_MARKS = re.compile(r"(?:[ \t]*>)+[ \t]?")


@dataclass(frozen=True)
class MarkdownExtractor:
    """Returns the source, with the blocks of CommonMark, and tables as GitHub has them."""

    limits: Limits

    def extract(self, path: Path) -> DocumentText:
        """Return the text of the file at `path`, which has no pages."""
        text = clean(read_text(path))
        if len(text) > self.limits.text_chars:  # it will be refused, and need not be parsed
            return DocumentText(text, ())
        return DocumentText(text, (), tuple(_blocks(text)))


def _blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of a source, without the marks that make them what they are."""
    front = FRONT_MATTER.match(text)
    if front is not None:
        yield Block(BlockKind.CODE, *front.span(1))
    offset = front.end() if front is not None else 0
    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.enableOnly(["normalize", "block"])  # the text inside blocks is not parsed
    lines = text[offset:].split("\n")
    starts = [offset]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    for kind, level, first, last in _lines_of_blocks(parser.parse(text[offset:])):
        while last > first + 1 and not lines[last - 1].strip():
            last -= 1
        span = starts[first], starts[last] - 1
        start, end = _without_marks(text, kind, *span)
        if start < end:
            yield Block(kind, start, end, level)


def _lines_of_blocks(tokens: Sequence[Token]) -> Iterator[tuple[BlockKind, int, int, int]]:
    """Yield kind and level of each block, its first line, and the first one behind it."""
    item_depth = 0
    for token in tokens:
        item_depth += (token.type == "list_item_open") - (token.type == "list_item_close")
        if token.map is None:
            continue
        first, last = token.map
        if token.type == "heading_open":
            is_underlined = token.markup in ("=", "-")
            yield BlockKind.HEADING, int(token.tag[1]), first, last - is_underlined
        elif token.type == "tr_open":
            yield BlockKind.TABLE_ROW, 0, first, first + 1
        elif token.type == "fence":
            yield BlockKind.CODE, 0, first + 1, max(first + 1, last - 1)
        elif token.type == "code_block":
            yield BlockKind.CODE, 0, first, last
        elif token.type in ("paragraph_open", "html_block"):
            kind = BlockKind.LIST_ITEM if item_depth else BlockKind.PARAGRAPH
            yield kind, 0, first, last


def _without_marks(text: str, kind: BlockKind, start: int, end: int) -> tuple[int, int]:
    """Leave out what is no part of the words: marks of headings, quotes, bullets and tables."""
    if kind is BlockKind.CODE:
        return start, end
    is_item = kind is BlockKind.LIST_ITEM
    while marks := QUOTE_MARKS.match(text, start, end) or (is_item and BULLET.match(text, start)):
        start = marks.end()
    if kind is BlockKind.HEADING:
        marks = re.compile(r"[ \t]*(?:#{1,6}[ \t]+)?").match(text, start, end)
        start = marks.end() if marks is not None else start
        words = re.sub(r"(?:[ \t]+#+)?[ \t]*\Z", "", text[start:end])
        return start, start + len(words)
    if kind is BlockKind.TABLE_ROW:
        words = text[start:end].strip()
        start = text.index(words, start)
        inner = words.strip("|").strip()
        return text.index(inner, start), text.index(inner, start) + len(inner)
    words = text[start:end]
    return start + len(words) - len(words.lstrip()), start + len(words.rstrip())


def build(limits: Limits) -> MarkdownExtractor:
    """Make the extractor; this is the plug-in's entry point."""
    return MarkdownExtractor(limits)
