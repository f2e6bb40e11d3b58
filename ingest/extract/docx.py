"""DOCX: paragraphs and tables of the body, in order."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docx

from ingest import archive
from ingest.limits import Limits
from ingest.text import DocumentText, join_pages

WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
PARAGRAPH, TABLE, ROW, CELL = (WORD + name for name in ("p", "tbl", "tr", "tc"))
TEXTBOX = WORD + "txbxContent"
REMOVED = frozenset((WORD + "del", WORD + "moveFrom", FALLBACK, TEXTBOX))
MARKS = {
    WORD + "tab": "\t",
    WORD + "br": "\n",
    WORD + "cr": "\n",
    WORD + "noBreakHyphen": "-",
}


@dataclass(frozen=True)
class DocxExtractor:
    """Reads the body's own XML: python-docx's `text` leaves out content controls and insertions."""

    limits: Limits

    def extract(self, path: Path) -> DocumentText:
        """The whole file as one page: where pages end is decided when it is printed.

        Raises: ArchiveBomb, DocumentRejected.
        """
        archive.check(path, self.limits)
        body = docx.Document(str(path)).element.body
        return join_pages(["\n".join(_blocks(body))])


def _blocks(parent: Any) -> Iterator[str]:
    """Paragraphs and table rows below `parent`, a line each."""
    for node in parent:
        if node.tag == PARAGRAPH:
            yield _inline(node)
            for box in _text_boxes(node):
                yield from _blocks(box)
        elif node.tag == TABLE:
            yield from _rows(node)
            yield ""
        elif node.tag not in REMOVED:
            yield from _blocks(node)  # content controls and the like wrap blocks


def _rows(table: Any) -> Iterator[str]:
    for row in table.iter(ROW):
        if next(row.iterancestors(TABLE)) is table:  # rows of nested tables stay in their cell
            cells = (cell for cell in row.iter(CELL) if next(cell.iterancestors(ROW)) is row)
            yield " | ".join(" ".join(" ".join(_blocks(cell)).split()) for cell in cells)


def _inline(paragraph: Any) -> str:
    """The visible text of one paragraph: insertions yes, deletions and text boxes no."""
    parts, stack = [], [iter(paragraph)]
    while stack:
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
        elif node.tag == WORD + "t":
            parts.append(node.text or "")
        elif node.tag in MARKS:
            parts.append(MARKS[node.tag])
        elif node.tag not in REMOVED and node.tag != WORD + "pPr":
            stack.append(iter(node))
    return "".join(parts).rstrip()


def _text_boxes(paragraph: Any) -> Iterator[Any]:
    """Text boxes anchored in a paragraph, once each (Word writes a fallback copy)."""
    for box in paragraph.iter(TEXTBOX):
        if next(box.iterancestors(FALLBACK), None) is None:
            yield box


def build(limits: Limits) -> DocxExtractor:
    """The plug-in's entry."""
    return DocxExtractor(limits)
