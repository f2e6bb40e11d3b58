"""Extracted text with the character spans of its pages, its blocks and its words."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from common.passages import Block, BlockKind
from ingest.page_words import PageWords

PAGE_BREAK = "\n\n"
# Blocks that stand on lines below each other, without an empty line between two of a kind.
CLOSE_KINDS = frozenset((BlockKind.LIST_ITEM, BlockKind.TABLE_ROW, BlockKind.CODE))
BULLET = re.compile(r"\s*[-*+\u2022\u2023\u25aa\u25e6\u25cf\u25cb\u2043\u2219\uf0b7]\s+")


@dataclass(frozen=True)
class PageSpan:
    """The half-open span of characters that one page has in the document's text.

    Attributes:
        number: the page's number, counted from 1.
        start, end: offset of the page's first character, and of the first one after the page.
    """

    number: int
    start: int
    end: int


@dataclass(frozen=True)
class DocumentText:
    """A document as plain text.

    Attributes:
        text: all of it.
        pages: cover the text without gaps and overlaps; none for a format that has no pages.
        blocks: headings, paragraphs, list items, table rows and code, in the order of the text; if
            there are none, each line counts as a paragraph.
        words: of each page of a PDF, where they are drawn; none for other formats.
        warnings: by code, a sentence about what could not be taken from the file.
    """

    text: str
    pages: tuple[PageSpan, ...]
    blocks: tuple[Block, ...] = ()
    words: tuple[PageWords, ...] = ()
    warnings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TextBlock:
    """A block and its text, before it has a place in the document; `level` as of `Block`."""

    kind: BlockKind
    text: str
    level: int = 0


def join_blocks(blocks: Iterable[TextBlock]) -> DocumentText:
    """Join blocks to a text without pages, with empty lines between them; blank ones are left out.

    Items of a list, rows of a table and lines of code follow each other on lines of their own.
    """
    parts: list[str] = []
    placed: list[Block] = []
    start = 0
    for block in blocks:
        text = clean(block.text)
        if not text.strip():
            continue
        if placed:
            is_close = block.kind is placed[-1].kind and block.kind in CLOSE_KINDS
            parts.append("\n" if is_close else "\n\n")
            start += len(parts[-1])
        first, end = block_span(block.kind, text)
        placed.append(Block(block.kind, start + first, start + end, block.level))
        parts.append(text)
        start += len(text)
    return DocumentText("".join(parts), (), tuple(placed))


def block_span(kind: BlockKind, text: str) -> tuple[int, int]:
    """The part of a block's text that is the block: without white space and a list's bullet."""
    end = len(text.rstrip())
    bullet = BULLET.match(text) if kind is BlockKind.LIST_ITEM else None
    if bullet is not None and bullet.end() < end:
        return bullet.end(), end
    return len(text) - len(text.lstrip()), end


def join_pages(pages: Sequence[str]) -> DocumentText:
    """Join the texts of pages with empty lines, each of which belongs to the page before it.

    A page without text keeps its number, and its span contains at most the empty line.
    """
    texts = [clean(page) for page in pages]
    parts = [text + PAGE_BREAK for text in texts[:-1]] + texts[-1:]
    spans, start = [], 0
    for number, part in enumerate(parts, 1):
        spans.append(PageSpan(number, start, start + len(part)))
        start += len(part)
    return DocumentText("".join(parts), tuple(spans))


def clean(text: str) -> str:
    """Remove NULs, and replace line ends by \\n and lone surrogates by U+FFFD.

    Unicode is not normalised, so that combining marks stay as they are.
    """
    text = text.replace("\x00", "").replace("\r\n", "\n").replace("\r", "\n")
    if _has_surrogate(text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _has_surrogate(text: str) -> bool:
    """Return whether a text contains a code point that UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
