"""HTML files: the text that a browser would show, block by block."""

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from selectolax.lexbor import LexborHTMLParser, LexborNode

from common.passages import Block, BlockKind
from ingest.encoding import read_text
from ingest.limits import Limits
from ingest.text import DocumentText, block_span, clean
from ingest.warnings import dropped_parts


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


HIDDEN = _words("head script style template noscript svg math iframe object canvas audio video")
BLOCKS = _words(
    """address article aside blockquote body caption dd details dialog div dl dt fieldset figcaption
    figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr legend li main nav ol option p pre section
    summary table tbody tfoot thead title tr ul"""
)
PARAGRAPHS = _words("p h1 h2 h3 h4 h5 h6 table ul ol blockquote pre figure")
DROPPED = {
    "img, picture, canvas, svg": "pictures",
    "iframe, object, embed": "embedded pages",
    "audio, video": "recordings",
    "math": "formulas",
}
BULLET = "- "
HEADINGS = _words("h1 h2 h3 h4 h5 h6")
CELLS = frozenset(("td", "th"))
WHITESPACE = re.compile(r"[ \t\n\r\f]+")


@dataclass
class _Page:
    """The text so far: inline text is collected in `line`, which ends at the end of a block."""

    lines: list[str] = field(default_factory=list)
    line: list[str] = field(default_factory=list)
    kinds: list[tuple[BlockKind, int] | None] = field(default_factory=list)  # with level, by line
    pre_depth: int = 0
    item_depth: int = 0
    cell_depth: int = 0  # a table row becomes one line, whatever its cells contain
    has_cells: bool = False  # of a table, in the line
    heading: int = 0  # its level, inside one

    def add(self, text: str) -> None:
        self.line.append(text if self.pre_depth else WHITESPACE.sub(" ", text))

    def end_line(self) -> None:
        if self.cell_depth:
            self.line.append(" ")
            return
        text = "".join(self.line)
        if text.strip() == BULLET.strip() and self.line[0] is BULLET:
            return  # a block in a list item starts on the line of the bullet
        text = text.strip("\n").rstrip() if self.pre_depth else WHITESPACE.sub(" ", text).strip()
        text = clean(text)
        if text:
            self.lines.append(text)
            self.kinds.append(self._kind())
        self.line.clear()
        self.has_cells = False

    def _kind(self) -> tuple[BlockKind, int]:
        if self.has_cells:
            return BlockKind.TABLE_ROW, 0
        if self.heading:
            return BlockKind.HEADING, self.heading
        if self.pre_depth:
            return BlockKind.CODE, 0
        return (BlockKind.LIST_ITEM if self.item_depth else BlockKind.PARAGRAPH), 0

    def end_paragraph(self) -> None:
        self.end_line()
        if self.lines and self.lines[-1] and not self.cell_depth:
            self.lines.append("")
            self.kinds.append(None)

    def document(self) -> DocumentText:
        self.end_line()
        blocks, start = [], 0
        for line, found in zip(self.lines, self.kinds, strict=True):
            if found is not None:
                first, end = block_span(found[0], line)
                blocks.append(Block(found[0], start + first, start + end, found[1]))
            start += len(line) + 1
        return DocumentText("\n".join(self.lines).rstrip("\n"), (), tuple(blocks))


@dataclass(frozen=True)
class HtmlExtractor:
    """Extracts visible text; blocks become lines, and table rows become `a | b`."""

    def extract(self, path: Path) -> DocumentText:
        """Return the text of the file at `path`, which has no pages."""
        root = LexborHTMLParser(read_text(path, html=True)).root
        if root is None:
            return DocumentText("", ())
        parts = Counter({name: len(root.css(tags)) for tags, name in DROPPED.items()})
        return replace(_document(root), warnings=dropped_parts(parts))


def _document(root: LexborNode) -> DocumentText:
    """Walk the tree without recursion, because files can be nested deeper than Python allows."""
    page, node = _Page(), root
    while True:
        child = _enter(node, page)
        if child is not None:
            node = child
            continue
        while node.next is None:
            if node.parent is None or node.mem_id == root.mem_id:
                return page.document()
            node = node.parent
            _leave(node, page)
        node = node.next


def _enter(node: LexborNode, page: _Page) -> LexborNode | None:
    """Process the start of a node, and return its first child if its content is visible."""
    if node.is_text_node:
        page.add(node.text_content or "")
        return None
    tag = node.tag or ""
    if tag in HIDDEN or node.is_comment_node:
        return None
    if tag in BLOCKS or tag == "br":
        page.end_line()
    elif tag in CELLS and not _is_first_cell(node):
        page.line.append(" | ")
    page.has_cells |= tag in CELLS
    if tag in HEADINGS:
        page.heading = int(tag[1])
    if tag == "li":
        page.line.append(BULLET)
    page.pre_depth += tag == "pre"
    page.item_depth += tag == "li"
    page.cell_depth += tag in CELLS
    if node.first_child is None:
        _leave(node, page)
    return node.first_child


def _leave(node: LexborNode, page: _Page) -> None:
    """Process the end of a node."""
    tag = node.tag or ""
    page.cell_depth -= tag in CELLS
    if tag in PARAGRAPHS:
        page.end_paragraph()
    elif tag in BLOCKS:
        page.end_line()
    page.pre_depth -= tag == "pre"
    page.item_depth -= tag == "li"
    if tag in HEADINGS:
        page.heading = 0
    if tag == "li" and page.line:  # the list item has no text
        page.line.clear()


def _is_first_cell(node: LexborNode) -> bool:
    previous = node.prev
    while previous is not None and previous.tag not in CELLS:
        previous = previous.prev
    return previous is None


def build(_limits: Limits) -> HtmlExtractor:
    """Make the extractor; this is the plug-in's entry point."""
    return HtmlExtractor()
