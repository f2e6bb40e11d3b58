"""DOCX files: the paragraphs and tables of the body, in order."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import docx

from ingest import archive
from ingest.limits import Limits
from ingest.text import DocumentText, join_pages
from ingest.warnings import dropped_parts

WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
PARAGRAPH, TABLE, ROW, CELL = (WORD + name for name in ("p", "tbl", "tr", "tc"))
TEXTBOX = WORD + "txbxContent"
REMOVED = frozenset((WORD + "del", WORD + "moveFrom", FALLBACK, TEXTBOX))
DROPPED = {
    "{http://schemas.openxmlformats.org/drawingml/2006/picture}pic": "pictures",
    "{http://schemas.openxmlformats.org/drawingml/2006/chart}chart": "charts",
    "{http://schemas.openxmlformats.org/officeDocument/2006/math}oMath": "formulas",
    WORD + "headerReference": "headers",
    WORD + "footerReference": "footers",
    WORD + "footnoteReference": "footnotes",
    WORD + "endnoteReference": "endnotes",
    WORD + "commentReference": "comments",
}
SPECIAL_CHARS = {
    WORD + "tab": "\t",
    WORD + "br": "\n",
    WORD + "cr": "\n",
    WORD + "noBreakHyphen": "-",
}


@dataclass(frozen=True)
class DocxExtractor:
    """Walks the XML, since the `text` of python-docx lacks content controls and insertions."""

    limits: Limits

    def extract(self, path: Path) -> DocumentText:
        """Return the text as one page, because pages only exist when the file is printed.

        Raises: ArchiveBomb, DocumentRejected.
        """
        archive.check(path, self.limits)
        body = docx.Document(str(path)).element.body
        text = join_pages(["\n".join(_blocks(body))])
        return replace(text, warnings=dropped_parts(_count_dropped(body)))


def _count_dropped(body: Any) -> Counter[str]:
    """Count what `_blocks` leaves out, by its name."""
    found: Counter[str] = Counter()
    for node in body.iter(*DROPPED):
        if next(node.iterancestors(FALLBACK), None) is None:
            found[DROPPED[node.tag]] += 1
    return found


def _blocks(parent: Any) -> Iterator[str]:
    """Yield each paragraph and table row below `parent` as one line."""
    for node in parent:
        if node.tag == PARAGRAPH:
            yield _inline(node)
            for box in _text_boxes(node):
                yield from _blocks(box)
        elif node.tag == TABLE:
            yield from _rows(node)
            yield ""
        elif node.tag not in REMOVED:
            yield from _blocks(node)  # for example a content control, which contains blocks


def _rows(table: Any) -> Iterator[str]:
    for row in table.iter(ROW):
        if next(row.iterancestors(TABLE)) is table:  # not a row of a nested table
            cells = (cell for cell in row.iter(CELL) if next(cell.iterancestors(ROW)) is row)
            yield " | ".join(" ".join(" ".join(_blocks(cell)).split()) for cell in cells)


def _inline(paragraph: Any) -> str:
    """Return the visible text of a paragraph, with insertions, without deletions and text boxes."""
    parts, stack = [], [iter(paragraph)]
    while stack:
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
        elif node.tag == WORD + "t":
            parts.append(node.text or "")
        elif node.tag in SPECIAL_CHARS:
            parts.append(SPECIAL_CHARS[node.tag])
        elif node.tag not in REMOVED and node.tag != WORD + "pPr":
            stack.append(iter(node))
    return "".join(parts).rstrip()


def _text_boxes(paragraph: Any) -> Iterator[Any]:
    """Yield the text boxes of a paragraph, but not the copies that Word writes as a fallback."""
    for box in paragraph.iter(TEXTBOX):
        if next(box.iterancestors(FALLBACK), None) is None:
            yield box


def build(limits: Limits) -> DocxExtractor:
    """Make the extractor; this is the plug-in's entry point."""
    return DocxExtractor(limits)
