"""DOCX files: the paragraphs and tables of the body, in order."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import docx

from common.passages import BlockKind
from ingest import archive
from ingest.limits import Limits
from ingest.text import DocumentText, TextBlock, join_blocks
from ingest.warnings import dropped_parts

WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
PARAGRAPH, TABLE, ROW, CELL = (WORD + name for name in ("p", "tbl", "tr", "tc"))
PROPERTIES, VAL = WORD + "pPr", WORD + "val"
HEADING_NAME = re.compile(r"(?:heading ([1-9])|title)")
ITEM = BlockKind.LIST_ITEM
MAX_STYLE_DEPTH = 20
Style = tuple[BlockKind, int]  # what a paragraph is, and the level of a heading
Styles = Mapping[str, Style]
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
        """Return the text without pages, because they only exist when the file is printed.

        Raises: ArchiveBomb, DocumentRejected.
        """
        archive.check(path, self.limits)
        document = docx.Document(str(path))
        body = document.element.body
        text = join_blocks(_blocks(body, _styles(document)))
        return replace(text, warnings=dropped_parts(_count_dropped(body)))


def _count_dropped(body: Any) -> Counter[str]:
    """Count what `_blocks` leaves out, by its name."""
    found: Counter[str] = Counter()
    for node in body.iter(*DROPPED):
        if next(node.iterancestors(FALLBACK), None) is None:
            found[DROPPED[node.tag]] += 1
    return found


def _styles(document: Any) -> Styles:
    """Return what the styles of paragraphs make of them, by the styles' ids."""
    try:
        nodes = list(document.styles.element.iter(WORD + "style"))
    except (KeyError, ValueError):  # the file has no styles
        return {}
    own: dict[str, tuple[str, Style | None]] = {}
    for node in nodes:
        name, base = node.find(WORD + "name"), node.find(WORD + "basedOn")
        word = "" if name is None else str(name.get(VAL, ""))
        parent = "" if base is None else str(base.get(VAL, ""))
        own[str(node.get(WORD + "styleId", ""))] = parent, _style(word, node.find(PROPERTIES))
    return {style: _inherited(own, style) for style in own}


def _inherited(own: Mapping[str, tuple[str, Style | None]], style: str) -> Style:
    for _ in range(MAX_STYLE_DEPTH):
        parent, found = own.get(style, ("", None))
        if found is not None:
            return found
        style = parent
    return BlockKind.PARAGRAPH, 0


def _style(name: str, properties: Any) -> Style | None:
    """What a name and properties make of a paragraph; None if they say nothing."""
    found = HEADING_NAME.fullmatch(name.lower())
    if found is not None:
        return BlockKind.HEADING, int(found[1] or 1)
    if properties is not None:
        outline = properties.find(WORD + "outlineLvl")
        level = "" if outline is None else str(outline.get(VAL, ""))
        if level.isdigit() and int(level) < 9:
            return BlockKind.HEADING, int(level) + 1
        numbering = properties.find(WORD + "numPr")
        if numbering is not None:
            number = numbering.find(WORD + "numId")
            return None if number is not None and number.get(VAL) == "0" else (ITEM, 0)
    return (ITEM, 0) if name.lower().startswith("list") else None


def _blocks(parent: Any, styles: Styles) -> Iterator[TextBlock]:
    """Yield each line of a paragraph and each table row below `parent`."""
    for node in parent:
        if node.tag == PARAGRAPH:
            kind, level = _kind(node, styles)
            for line in _inline(node).split("\n"):
                yield TextBlock(kind, line, level)
            for box in _text_boxes(node):
                yield from _blocks(box, styles)
        elif node.tag == TABLE:
            for row in _rows(node):
                yield TextBlock(BlockKind.TABLE_ROW, row)
        elif node.tag not in REMOVED:
            yield from _blocks(node, styles)  # for example a content control, which contains blocks


def _kind(paragraph: Any, styles: Styles) -> Style:
    """What a paragraph is, from its own properties and its style."""
    properties = paragraph.find(PROPERTIES)
    if properties is None:
        return BlockKind.PARAGRAPH, 0
    named = properties.find(WORD + "pStyle")
    by_style = styles.get("" if named is None else str(named.get(VAL, "")))
    return _style("", properties) or by_style or (BlockKind.PARAGRAPH, 0)


def _rows(table: Any) -> Iterator[str]:
    for row in table.iter(ROW):
        if next(row.iterancestors(TABLE)) is table:  # not a row of a nested table
            cells = (cell for cell in row.iter(CELL) if next(cell.iterancestors(ROW)) is row)
            yield " | ".join(_cell_text(cell) for cell in cells)


def _cell_text(cell: Any) -> str:
    return " ".join(" ".join(block.text for block in _blocks(cell, {})).split())


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
