"""A document's text in parts that a page loads one by one, and in blocks that people read.

Blocks carry the characters of the text as they are, so that spans of evidence point into them.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.document.artifact import DocumentText

PART_CHARS = 8_000
MAX_BLOCK_CHARS = 4_000
PARAGRAPH = re.compile(r"\n[ \t]*\n\s*")
HEADING = re.compile(r"(#{1,6})[ \t]+(?=\S)")


@dataclass(frozen=True)
class Part:
    """A half-open span of characters that is loaded at once."""

    number: int
    start: int
    end: int


@dataclass(frozen=True)
class Block:
    """A paragraph, a heading, or the beginning of a page.

    Attributes:
        start: offset of its first character in the document's text.
        text: its characters, as they are in the document's text.
        level: of a heading, from 1; 0 for a paragraph.
        mark: the first characters that say that it is a heading, such as "## ".
        page: the number of a page that begins before it; None if none does.
    """

    start: int
    text: str
    level: int = 0
    mark: str = ""
    page: int | None = None

    @property
    def shown(self) -> str:
        """Its characters behind the mark."""
        return self.text[len(self.mark) :]


def divide_text(text: str) -> tuple[Part, ...]:
    """Divide a text into parts that end at the ends of paragraphs, where there are any."""
    parts, start = [], 0
    while start < len(text):
        end = _end_of_part(text, start)
        parts.append(Part(len(parts), start, end))
        start = end
    return tuple(parts)


def blocks_of(
    document: DocumentText, part: Part, *, has_headings: bool, has_pages: bool
) -> tuple[Block, ...]:
    """Return the blocks of a part.

    Args:
        has_headings: whether lines may be headings of Markdown.
        has_pages: whether the beginnings of pages are shown.
    """
    pages = document.pages if has_pages else ()
    firsts = [page.start for page in pages]
    first = bisect_right(firsts, part.start - 1)
    blocks: list[Block] = []
    cuts = [part.start, *(start for start in firsts[first:] if part.start < start < part.end)]
    for start, end in zip(cuts, [*cuts[1:], part.end], strict=True):
        number = _page_at(firsts, start)
        found = list(_blocks(document.text, start, end, has_headings))
        if number is not None:
            page = pages[number].number
            head = found[0] if found else Block(start, "")
            found[:1] = [Block(head.start, head.text, head.level, head.mark, page)]
        blocks += found
    return tuple(blocks)


def _page_at(firsts: Sequence[int], start: int) -> int | None:
    """The index of the last page that begins at a character; None if none does."""
    index = bisect_right(firsts, start) - 1
    return index if index >= 0 and firsts[index] == start else None


def _blocks(text: str, start: int, end: int, has_headings: bool) -> Iterator[Block]:
    at = start
    for gap in PARAGRAPH.finditer(text, start, end):
        yield from _paragraph(text, at, gap.start(), has_headings)
        at = gap.end()
    yield from _paragraph(text, at, end, has_headings)


def _paragraph(text: str, start: int, end: int, has_headings: bool) -> Iterator[Block]:
    while start < end and text[start] in "\r\n":
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    heading = HEADING.match(text, start, end) if has_headings else None
    if heading:
        line = text.find("\n", start, end)
        stop = end if line < 0 else line
        yield Block(start, text[start:stop], len(heading[1]), heading[0])
        if line >= 0:
            yield from _paragraph(text, line + 1, end, has_headings)
        return
    while start < end:
        stop = _end_of_block(text, start, end, has_headings)
        yield Block(start, text[start:stop])
        if stop < end and has_headings and text[stop] == "\n":
            yield from _paragraph(text, stop + 1, end, has_headings)
            return
        start = stop


def _end_of_block(text: str, start: int, end: int, has_headings: bool) -> int:
    stop = end
    if has_headings:
        heading = re.compile(r"\n(?=#{1,6}[ \t]+\S)").search(text, start, end)
        stop = heading.start() if heading else end
    if stop - start <= MAX_BLOCK_CHARS:
        return stop
    stop = start + MAX_BLOCK_CHARS
    blank = max(text.rfind(" ", start, stop), text.rfind("\n", start, stop))
    return blank + 1 if blank > start else stop


def _end_of_part(text: str, start: int) -> int:
    if len(text) - start <= PART_CHARS * 5 // 4:
        return len(text)
    wanted = start + PART_CHARS
    gap = PARAGRAPH.search(text, wanted, start + 2 * PART_CHARS)
    if gap:
        return gap.end()
    for mark in ("\n", " "):
        found = text.rfind(mark, start + 1, wanted)
        if found >= 0:
            return found + 1
    return wanted
