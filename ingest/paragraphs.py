"""From the lines of a PDF's pages to blocks of text, joined as the eye joins them."""

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from common.passages import Block, BlockKind
from ingest.layout import MARKER, Box, Column, Line, Page, Row, Word, read_pieces, words_of
from ingest.page_words import UNIT, PageWords, WordBox
from ingest.text import DocumentText, PageSpan, block_span, clean

CELL_BREAK = " | "
SAME_SIZE = 0.12  # share by which heights of glyphs may differ within a paragraph
LINE_GAP = 1.3  # times the usual distance between lines: more begins a paragraph
INDENT = 0.7  # of the line's height
NEIGHBOURS = 5  # lines above and below that tell how wide a column is
HEADING_SIZE = 1.12  # times the size of the document's text
HEADING_WORDS = 24
MARGIN = 0.13  # share of the page's height in which heads and feet stand
MARGIN_WORDS = 30  # of a head or foot at most
FURNITURE_SHARE = 0.05  # of the pages: what stands on so many at one place is a head or foot
FEW_PAGES = 6  # of which two suffice
MAX_LEVEL = 6
NUMBERED = re.compile(
    r"(?:\d{1,2}\.){1,4}\d{0,2}|\d{1,2}|[A-Z]\.|[IVX]{1,5}\.|\u00a7|Appendix|Chapter|Part|Section|Article"
)
PAGE_NUMBER = re.compile(
    r"[-\u2013\u2014\s]*(?:(?:page|p\.|seite)\s*)?(?:\d{1,4}|[ivxlc]{1,6})"
    r"(?:\s*(?:/|of|von)\s*\d{1,4})?[-\u2013\u2014\s]*",
    re.IGNORECASE,
)
LEADERS = re.compile(r"(?:\. ?){4,}\s*\S{1,5}$|\u2026{2,}\s*\S{1,5}$")
ENDS = re.compile(r"[.!?:;\u2026\u3002][\"'\u201d\u2019)\]]*$")
HYPHENS = "-\u2010\u00ad"
SOFT_HYPHEN = "\u00ad"
WORD = re.compile(r"[^\W\d_]+(?:[-\u2010][^\W\d_]+)*")


@dataclass(slots=True)
class _Paragraph:
    """Lines, or the cells of a row, that are one block.

    Attributes:
        lines: words of each line, or cell, with the number of its page.
        breaks: what stands between two of them.
        is_full: whether the last line leaves no room for another word.
    """

    kind: BlockKind
    lines: list[tuple[int, list[Word]]]
    breaks: str
    size: float
    is_bold: bool
    is_full: bool = False
    level: int = 0

    @property
    def text(self) -> str:
        return " ".join(word.text for _, words in self.lines for word in words)

    @property
    def num_chars(self) -> int:
        return sum(len(word.text) for _, words in self.lines for word in words)


def join_lines(pages: Sequence[Page]) -> DocumentText:
    """Make the text of a document of its pages' runs, with blocks, pages and boxes of words.

    Words that are broken at a line's end are joined; heads and feet that repeat on many pages are
    left out but for the first, and page numbers are left out.
    """
    pieces = [read_pieces(page) for page in pages]
    _drop_furniture(pages, pieces)
    known = Counter(
        found.group().lower()
        for page in pieces
        for word in words_of(page)
        for found in (WORD.fullmatch(word.text.strip(".,;:!?()[]\"'\u201c\u201d\u2018\u2019")),)
        if found is not None
    )
    flows = [list(_paragraphs(page.number, own)) for page, own in zip(pages, pieces, strict=True)]
    body_size = _body_size(flows)
    paragraphs = _joined_across(flows, body_size)
    _name_headings(paragraphs, body_size)
    return _Writer(pages, known).write(paragraphs)


def _drop_furniture(pages: Sequence[Page], pieces: Sequence[list[Column | Row]]) -> None:
    """Take heads, feet and page numbers out of pages; the first of a kind goes to the front."""
    places: Counter[tuple[str, int]] = Counter()
    edges: list[list[tuple[Line, tuple[str, int]]]] = []
    for page, own in zip(pages, pieces, strict=True):
        found = []
        for line in _edge_lines(page, own):
            key = re.sub(r"\d+", "#", line.text), round(line.box.middle / 4)
            found.append((line, key))
        places.update({key for _, key in found})
        edges.append(found)
    needed = 2 if len(pages) <= FEW_PAGES else max(3, FURNITURE_SHARE * len(pages))
    seen: set[tuple[str, int]] = set()
    for own, found in zip(pieces, edges, strict=True):
        kept: list[Line] = []
        dropped: list[Line] = []
        for line, key in found:
            is_number = PAGE_NUMBER.fullmatch(line.text) is not None
            if places[key] < needed and not (is_number and len(pages) > 1):
                continue
            dropped.append(line)
            if key not in seen and not is_number:
                kept.append(line)
            seen.add(key)
        if dropped and len(dropped) < _num_lines(own):  # a page of these alone is no ordinary one
            _remove(own, dropped)
            own[:0] = [Column([line]) for line in kept]


def _edge_lines(page: Page, pieces: Iterable[Column | Row]) -> list[Line]:
    """The lines in the margins at the top and the bottom of a page."""
    lines = [line for piece in pieces if isinstance(piece, Column) for line in piece.lines]
    top, bottom = MARGIN * page.height, (1 - MARGIN) * page.height
    return [
        line
        for line in lines
        if (line.box.bottom < top or line.box.top > bottom) and len(line.words) <= MARGIN_WORDS
    ]


def _num_lines(pieces: Iterable[Column | Row]) -> int:
    return sum(len(piece.lines) if isinstance(piece, Column) else 1 for piece in pieces)


def _remove(pieces: list[Column | Row], lines: Sequence[Line]) -> None:
    gone = {id(line) for line in lines}
    for piece in pieces:
        if isinstance(piece, Column):
            piece.lines = [line for line in piece.lines if id(line) not in gone]
    pieces[:] = [piece for piece in pieces if not isinstance(piece, Column) or piece.lines]


def _paragraphs(number: int, pieces: Sequence[Column | Row]) -> Iterator[_Paragraph]:
    for piece in pieces:
        if isinstance(piece, Row):
            words = [word for cell in piece.cells for word in cell]
            size = median(word.box.height for word in words)
            is_bold = all(word.is_bold for word in words)
            lines = [(number, cell) for cell in piece.cells]
            yield _Paragraph(BlockKind.TABLE_ROW, lines, CELL_BREAK, size, is_bold)
        else:
            yield from _paragraphs_of_column(number, piece.lines)


def _paragraphs_of_column(number: int, lines: Sequence[Line]) -> Iterator[_Paragraph]:
    pitch = _pitch(lines)
    indents_begin = _do_indents_begin(lines, pitch)
    current: list[Line] = []
    for index, line in enumerate(lines):
        if current and _begins(lines, index, current, pitch, indents_begin):
            yield _paragraph(number, current, _right_edge(lines, index - 1))
            current = []
        current.append(line)
    if current:
        yield _paragraph(number, current, _right_edge(lines, len(lines) - 1))


def _paragraph(number: int, lines: Sequence[Line], right: float) -> _Paragraph:
    first, last = lines[0], lines[-1]
    kind = BlockKind.LIST_ITEM if _has_marker(first) else BlockKind.PARAGRAPH
    return _Paragraph(
        kind,
        [(number, line.words) for line in lines],
        " ",
        median(line.size for line in lines),
        all(line.is_bold for line in lines),
        last.box.right >= right - 3 * last.size,
    )


def _begins(
    lines: Sequence[Line],
    index: int,
    current: Sequence[Line],
    pitch: float,
    indents_begin: bool,
) -> bool:
    """Return whether a line of a column begins a paragraph, after the lines of the current one."""
    line, last, first = lines[index], lines[index - 1], current[0]
    size = max(line.size, last.size)
    if abs(line.size - last.size) > SAME_SIZE * size:
        return True
    if line.is_bold != last.is_bold and (last.is_bold or _is_short(last, lines, index - 1)):
        return True
    distance = line.box.middle - last.box.middle
    if distance > LINE_GAP * max(pitch, 0.9 * size) or distance < 0:
        return True
    if _has_marker(line) or LEADERS.search(last.text):
        return True
    shift = line.box.left - last.box.left
    if _has_marker(first):
        hanging = line.box.left > first.box.left + 0.3 * size
        if not hanging and len(current) > 1 and current[1].box.left > first.box.left + 0.3 * size:
            return True
    elif indents_begin and shift > INDENT * size and not _is_centred(last, line):
        return True
    elif (
        not indents_begin
        and len(current) > 1
        and shift < -INDENT * size
        and current[1].box.left > first.box.left + 0.3 * size
        and not _is_centred(last, line)
    ):
        return True  # the end of a hanging indent
    if line.is_bold and last.is_bold and distance <= LINE_GAP * size and len(current) < 4:
        return _is_short(last, lines, index - 1) and not _is_centred(last, line)
    is_ragged = _is_within_sentence(last, line) and not _is_short(last, lines, index - 1)
    if is_ragged or _is_centred(last, line):
        return False
    return _has_room(last, line, _right_edge(lines, index - 1))


def _is_within_sentence(last: Line, line: Line) -> bool:
    """Whether a line seems to go on with the sentence of the line above."""
    return line.words[0].text[:1].islower() and ENDS.search(last.text) is None


def _has_room(last: Line, line: Line, right: float) -> bool:
    """Whether the first word of a line had room behind the line above."""
    word = line.words[0]
    space = 0.25 * line.size
    return last.box.right + space + (word.box.right - word.box.left) < right - 0.3 * line.size


def _is_short(line: Line, lines: Sequence[Line], index: int) -> bool:
    left = min(one.box.left for one in lines)
    right = _right_edge(lines, index)
    return line.box.right - left < 0.6 * (right - left)


def _is_centred(last: Line, line: Line) -> bool:
    """Whether two lines stand around one axis, and neither fills what the other does."""
    axes = [(one.box.left + one.box.right) / 2 for one in (last, line)]
    return (
        abs(axes[0] - axes[1]) < 0.3 * line.size
        and abs(last.box.left - line.box.left) > 0.7 * line.size
    )


def _right_edge(lines: Sequence[Line], index: int) -> float:
    """How far the lines around one reach that are as large."""
    near = lines[max(0, index - NEIGHBOURS) : index + NEIGHBOURS + 1]
    size = lines[index].size
    return max(
        one.box.right for one in near if abs(one.size - size) <= 0.05 * size
    )  # fmt: skip


def _has_marker(line: Line) -> bool:
    """Whether a line begins with the mark of a list item."""
    is_marked = len(line.words) > 1 and MARKER.fullmatch(line.words[0].text) is not None
    return line.has_dot or is_marked


def _pitch(lines: Sequence[Line]) -> float:
    """The usual distance between lines of one paragraph: that of the nearest third."""
    found = sorted(
        below.box.middle - above.box.middle
        for above, below in itertools.pairwise(lines)
        if abs(above.size - below.size) <= SAME_SIZE * above.size
        and below.box.middle > above.box.middle
    )
    return found[len(found) // 3] if found else 0.0


def _do_indents_begin(lines: Sequence[Line], pitch: float) -> bool:
    """Whether indented lines of a column begin paragraphs, rather than go on with hanging ones.

    They do where most of them follow a line that ends early.
    """
    early = late = 0
    for index, (above, below) in enumerate(itertools.pairwise(lines)):
        distance = below.box.middle - above.box.middle
        if distance > LINE_GAP * max(pitch, 0.9 * below.size) or _has_marker(above):
            continue
        if below.box.left - above.box.left > INDENT * below.size:
            ends = _has_room(above, below, _right_edge(lines, index)) or ENDS.search(above.text)
            early += bool(ends)
            late += not ends
    return early >= late


def _body_size(flows: Sequence[Sequence[_Paragraph]]) -> float:
    sizes: Counter[float] = Counter()
    for flow in flows:
        for one in flow:
            sizes[round(one.size, 1)] += one.num_chars
    if not sizes:
        return 0.0
    half, seen = sizes.total() / 2, 0
    for size in sorted(sizes):
        seen += sizes[size]
        if seen >= half:
            return size
    return 0.0


def _joined_across(flows: Sequence[Sequence[_Paragraph]], body_size: float) -> list[_Paragraph]:
    """Put the paragraphs of all pages in a row, and join those that go on in the next column."""
    found: list[_Paragraph] = []
    for flow in flows:
        for one in flow:
            before = _last_open(found, one, body_size)
            if before is None:
                found.append(one)
                continue
            notes = found[before + 1 :]
            joined = found[before]
            del found[before:]
            found += notes
            found.append(
                replace(joined, lines=joined.lines + one.lines, is_full=one.is_full)
            )  # fmt: skip
    return found


def _last_open(found: Sequence[_Paragraph], one: _Paragraph, body_size: float) -> int | None:
    """The index of the paragraph that goes on in another one; None if that begins by itself.

    Footnotes in between are passed over.
    """
    if one.kind is not BlockKind.PARAGRAPH:
        return None
    index = len(found) - 1
    while index > 0 and found[index].size < 0.93 * min(body_size, one.size):
        index -= 1
    if index < 0:
        return None
    before = found[index]
    if before.kind not in (BlockKind.PARAGRAPH, BlockKind.LIST_ITEM):
        return None
    is_alike = abs(before.size - one.size) <= SAME_SIZE * one.size and before.is_bold == one.is_bold
    if not is_alike or one.is_bold or _is_same_column(before, one):
        return None
    text, first = before.text, one.text[:1]
    if text[-1:] in HYPHENS and first.islower():
        return index
    if ENDS.search(text) is not None:
        return None
    return index if first.islower() or (before.is_full and not first.isdigit()) else None


def _is_same_column(before: _Paragraph, one: _Paragraph) -> bool:
    """Whether a paragraph stands right below another, so that space between them divides them."""
    (page, words), (other_page, other_words) = before.lines[-1], one.lines[0]
    above, below = words[0].box, other_words[0].box
    return page == other_page and below.top > above.top


def _name_headings(paragraphs: Sequence[_Paragraph], body_size: float) -> None:
    """Find the headings, and give each a level by its size and weight."""
    is_body_bold = _is_mostly_bold(paragraphs, body_size)
    looks = {}
    for index, one in enumerate(paragraphs):
        if _looks_like_heading(one, body_size, is_body_bold) and index + 1 < len(paragraphs):
            one.kind = BlockKind.HEADING
            looks[id(one)] = (round(one.size / max(body_size, 1e-3), 1), one.is_bold)
    ranks = {look: rank for rank, look in enumerate(sorted(set(looks.values()), reverse=True), 1)}
    for one in paragraphs:
        if id(one) in looks:
            one.level = min(MAX_LEVEL, ranks[looks[id(one)]])


def _is_mostly_bold(paragraphs: Sequence[_Paragraph], body_size: float) -> bool:
    body = [one for one in paragraphs if abs(one.size - body_size) <= SAME_SIZE * body_size]
    bold = sum(one.num_chars for one in body if one.is_bold)
    return bold * 2 > sum(one.num_chars for one in body)


def _looks_like_heading(one: _Paragraph, body_size: float, is_body_bold: bool) -> bool:
    text = one.text
    is_numbered = NUMBERED.fullmatch(text.split(" ", 1)[0]) is not None
    if one.kind is BlockKind.TABLE_ROW or (one.kind is BlockKind.LIST_ITEM and not is_numbered):
        return False
    if len(one.lines) > 4 or text.count(" ") >= HEADING_WORDS or not any(map(str.isalpha, text)):
        return False
    if text[-1:] in ".;," and not (is_numbered and text.count(" ") < 2):
        return False
    is_large = one.size >= HEADING_SIZE * body_size
    return is_large or (one.is_bold and not is_body_bold and one.size >= 0.93 * body_size)


@dataclass
class _Writer:
    """Writes the text, and notes where blocks, pages and words are in it."""

    pages: Sequence[Page]
    known: Counter[str]
    parts: list[str] = field(default_factory=list)
    length: int = 0
    blocks: list[Block] = field(default_factory=list)
    page_starts: dict[int, int] = field(default_factory=dict)
    words: dict[int, list[WordBox]] = field(default_factory=dict)

    def write(self, paragraphs: Sequence[_Paragraph]) -> DocumentText:
        for one in paragraphs:
            self._write_paragraph(one)
        return DocumentText(
            "".join(self.parts), self._page_spans(), tuple(self.blocks), self._page_words()
        )

    def _write_paragraph(self, one: _Paragraph) -> None:
        if self.blocks:
            is_close = one.kind is self.blocks[-1].kind and one.kind in (
                BlockKind.LIST_ITEM,
                BlockKind.TABLE_ROW,
            )
            self._put("\n" if is_close else "\n\n")
        start = self.length
        first_part = len(self.parts)
        for index, (page, words) in enumerate(one.lines):
            follower = one.lines[index + 1][1][0].text if index + 1 < len(one.lines) else None
            self._write_line(page, words, follower if one.breaks == " " else None)
            if follower is not None and not (self.parts and self.parts[-1] == ""):
                self._put(one.breaks)
        text = "".join(self.parts[first_part:])
        first, end = block_span(one.kind, text)
        self.blocks.append(Block(one.kind, start + first, start + end, one.level))

    def _write_line(self, page: int, words: Sequence[Word], follower: str | None) -> None:
        """Write a line's words; the last part is empty if no white space may follow them."""
        self.page_starts.setdefault(page, self.length)
        for index, word in enumerate(words):
            text = clean(word.text)
            is_last = index + 1 == len(words)
            broken = is_last and follower is not None and len(text) > 1 and text[-1] in HYPHENS
            joins = broken and follower is not None and self._is_one_word(text, follower)
            if joins:
                text = text[:-1]
            elif text.endswith(SOFT_HYPHEN):
                text = text[:-1] + "-"
            text = text.replace(SOFT_HYPHEN, "")
            if not text:
                continue
            start = self.length
            self._put(text)
            self._note_word(page, start, word.box)
            if not is_last:
                self._put(" ")
            elif broken:
                self._put("")

    def _is_one_word(self, text: str, follower: str) -> bool:
        """Whether a hyphen at a line's end only divides a word, and does not belong to it."""
        if text.endswith(SOFT_HYPHEN):
            return True
        first, second = re.search(r"[^\W\d_]+$", text[:-1]), re.match(r"[^\W\d_]+", follower)
        if first is None or second is None or not second.group()[0].islower():
            return False
        whole = (first.group() + second.group()).lower()
        compound = f"{first.group()}-{second.group()}".lower()
        return self.known[whole] >= self.known[compound]

    def _put(self, text: str) -> None:
        self.parts.append(text)
        self.length += len(text)

    def _note_word(self, page: int, start: int, box: Box) -> None:
        left, top = round(box.left * UNIT), round(box.top * UNIT)
        right, bottom = round(box.right * UNIT), round(box.bottom * UNIT)
        noted = WordBox(start, self.length, left, top, right, bottom)
        self.words.setdefault(page, []).append(noted)

    def _page_spans(self) -> tuple[PageSpan, ...]:
        spans = []
        end = self.length
        for page in reversed(self.pages):
            start = self.page_starts.get(page.number, end)
            spans.append(PageSpan(page.number, min(start, end), end))
            end = min(start, end)
        if spans and spans[-1].start > 0:
            spans[-1] = replace(spans[-1], start=0)
        return tuple(reversed(spans))

    def _page_words(self) -> tuple[PageWords, ...]:
        return tuple(
            PageWords(
                page.number,
                round(page.width * UNIT),
                round(page.height * UNIT),
                tuple(sorted(self.words.get(page.number, ()), key=lambda word: word.start)),
            )
            for page in self.pages
        )
