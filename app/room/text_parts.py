"""A document's text in parts that a page loads one by one, and in blocks that people read.

Blocks carry the characters of the text as they are, so that spans of evidence point into them.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from common.passages import Block, BlockKind
from engine.document.artifact import DocumentText

PART_CHARS = 8_000
MAX_BLOCK_CHARS = 4_000
WORD = re.compile(r"\w")
HEADING_MARK = re.compile(r"#{1,6}[ \t]+(?=\S)")


@dataclass(frozen=True)
class Part:
    """A half-open span of characters that is loaded at once."""

    number: int
    start: int
    end: int


@dataclass(frozen=True)
class ShownBlock:
    """A block of text, or a piece of a very long one.

    Attributes:
        kind: a `BlockKind`.
        start: offset of its first character in the document's text.
        text: its characters, as they are in the document's text.
        level: of a heading, from 1; 0 for others.
        mark: the first characters that say that it is a heading, such as "## ".
        page: the number of a page that begins before it; None if none does.
    """

    kind: str
    start: int
    text: str
    level: int = 0
    mark: str = ""
    page: int | None = None

    @property
    def shown(self) -> str:
        """Its characters behind the mark."""
        return self.text[len(self.mark) :]


def divide_text(document: DocumentText) -> tuple[Part, ...]:
    """Divide a text into parts that end where blocks begin, or else at white space."""
    text, start = document.text, 0
    parts: list[Part] = []
    firsts = [block.start for block in document.structure.blocks]
    while start < len(text):
        end = len(text)
        if end - start > PART_CHARS * 5 // 4:
            end = _end_of_part(text, firsts, start)
        parts.append(Part(len(parts), start, end))
        start = end
    return tuple(parts)


def blocks_of(document: DocumentText, part: Part, *, has_pages: bool) -> tuple[ShownBlock, ...]:
    """Return the blocks of a part.

    Args:
        has_pages: whether the beginnings of pages are shown.
    """
    blocks: list[ShownBlock] = []
    for start, end, page in _stretches(document, part, has_pages):
        found = list(_blocks(document, start, end))
        if page is not None:
            head = found[0] if found else ShownBlock(BlockKind.PARAGRAPH, start, "")
            found[:1] = [ShownBlock(head.kind, head.start, head.text, head.level, head.mark, page)]
        blocks += found
    return tuple(blocks)


def _stretches(
    document: DocumentText, part: Part, has_pages: bool
) -> Iterator[tuple[int, int, int | None]]:
    """Cut a part where pages begin; yield spans, each with the number of a page it begins."""
    pages = document.pages if has_pages else ()
    firsts = [page.start for page in pages]
    inside = range(bisect_left(firsts, part.start), bisect_left(firsts, part.end))
    start, number = part.start, None
    for index in inside:
        if firsts[index] > start or number is not None:
            yield start, firsts[index], number
        start, number = firsts[index], pages[index].number
    yield start, part.end, number


def _blocks(document: DocumentText, start: int, end: int) -> Iterator[ShownBlock]:
    """Yield what blocks have between two offsets, and the visible characters between blocks."""
    text, blocks = document.text, document.structure.blocks
    at = start
    first = bisect_right(blocks, start, key=lambda block: block.end)
    for index in range(first, len(blocks)):
        block = blocks[index]
        if block.start >= end:
            break
        following = blocks[index + 1].start if index + 1 < len(blocks) else len(text)
        begin = _with_marks_before(text, at, max(at, block.start))
        yield from _pieces(text, Block(BlockKind.PARAGRAPH, at, begin))
        stop = max(begin, _with_marks_behind(text, block.end, max(block.end, following)))
        yield from _pieces(text, Block(block.kind, begin, min(stop, end), block.level))
        at = max(at, min(stop, end))
    yield from _pieces(text, Block(BlockKind.PARAGRAPH, at, end))


def _with_marks_before(text: str, least: int, start: int) -> int:
    """Where a block begins with the marks that stand before it on its line, as of a list's item."""
    line = max(least, text.rfind("\n", least, start) + 1)
    return start if WORD.search(text, line, start) else line


def _with_marks_behind(text: str, end: int, most: int) -> int:
    """Where a block ends with the marks that stand behind it on its line, as of a table's row."""
    line = text.find("\n", end, most)
    line = most if line < 0 else line
    return end if WORD.search(text, end, line) else line


def _pieces(text: str, block: Block) -> Iterator[ShownBlock]:
    start, end = block.start, block.end
    while start < end and text[start] in "\r\n":
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    if not text[start:end].strip():
        return
    mark = HEADING_MARK.match(text, start, end) if block.level else None
    while start < end:
        stop = _end_of_piece(text, start, end)
        shown = text[start:stop]
        yield ShownBlock(block.kind, start, shown, block.level, mark[0] if mark else "")
        start, mark = stop, None


def _end_of_piece(text: str, start: int, end: int) -> int:
    if end - start <= MAX_BLOCK_CHARS:
        return end
    stop = start + MAX_BLOCK_CHARS
    blank = max(text.rfind(" ", start, stop), text.rfind("\n", start, stop))
    return blank + 1 if blank > start else stop


def _end_of_part(text: str, firsts: list[int], start: int) -> int:
    wanted = start + PART_CHARS
    index = bisect_left(firsts, wanted)
    if index < len(firsts) and firsts[index] < start + 2 * PART_CHARS:
        return firsts[index]
    blank = max(text.rfind(" ", start, wanted), text.rfind("\n", start, wanted))
    return blank + 1 if blank > start else wanted
