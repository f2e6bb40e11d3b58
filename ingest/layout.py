"""From the glyphs of a page to lines and rows in the order in which they are read.

Glyphs become words, and words next to each other runs. Runs are divided by the white space between
them, as by recursive X-Y cuts: where runs on several lines leave a gutter free, they are columns of
prose or of a table, which their words and the order in which they are drawn tell apart.
Source: Nagy, Seth and Viswanathan, A Prototype Document Image Analysis System for Technical
Journals, 1992.
"""

import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

RUN_GAP = 1.0  # of the line's height: words further apart are not of one run
GUTTER = 0.8  # of the line's height: white space that divides columns
WIDE_GUTTER = 2.0
MARKER_GAP = 4.0  # of the line's height, between the mark of a list item and its text
SPACE = 0.12  # of the line's height: runs nearer to each other are parts of one word
CORE = 0.2  # of its height, above and below its middle, by which a run shares a line with others
PROSE_WORDS, PROSE_FILL = 4.0, 0.6  # of a line of prose: words, and its share of the column's width
MAX_DEPTH = 12
MARKER = re.compile(
    r"(?:[\u2022\u2023\u25aa\u25e6\u25cf\u25cb\u25a0\u25a1\u2043\u2219\uf0b7\u2013\u2014*-]"
    r"|\(?(?:\d{1,3}|[A-Za-z]|[ivxIVX]{1,5})[.)]|(?:\d{1,2}\.){1,4}\d{0,2})"
)

MARK_BEFORE = re.compile(rf"{MARKER.pattern}|\d{{1,2}}")  # of a run of its own


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in points, from the upper left corner of the page as it is shown."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def height(self) -> float:
        """Of the rectangle."""
        return self.bottom - self.top

    @property
    def middle(self) -> float:
        """Its vertical middle."""
        return (self.top + self.bottom) / 2


@dataclass(frozen=True, slots=True)
class Glyph:
    """A character, or the letters of a ligature; white space has no box.

    Attributes:
        is_bold: whether its font is bold.
        is_turned: whether it does not stand upright on the page.
    """

    text: str
    box: Box | None
    is_bold: bool
    is_turned: bool


@dataclass(slots=True)
class Word:
    """Glyphs without white space between them."""

    text: str
    box: Box
    is_bold: bool


@dataclass(slots=True)
class Run:
    """Words that are drawn one after the other on one line.

    Attributes:
        size: the height of most of its words.
        order: when it is drawn, among the runs of the page.
        is_turned: whether it does not stand upright.
    """

    words: list[Word]
    box: Box
    size: float
    order: int
    is_turned: bool


@dataclass(slots=True)
class Page:
    """A page of a PDF.

    Attributes:
        number: from 1.
        width, height: in points, as it is shown.
        runs: its words.
        dots: small shapes, which may be the bullets of a list.
    """

    number: int
    width: float
    height: float
    runs: list[Run]
    dots: list[Box] = field(default_factory=list)


@dataclass(slots=True)
class Line:
    """Words of one line in the order in which they are read."""

    words: list[Word]
    box: Box
    size: float
    has_dot: bool = False  # a bullet that is drawn as a shape stands before it

    @property
    def is_bold(self) -> bool:
        """Whether all of it is bold."""
        return all(word.is_bold for word in self.words)

    @property
    def text(self) -> str:
        """Its words with blanks between them."""
        return " ".join(word.text for word in self.words)


@dataclass(slots=True)
class Column:
    """Lines below each other."""

    lines: list[Line]


@dataclass(slots=True)
class Row:
    """A row of a table: the words of each cell that is not empty."""

    cells: list[list[Word]]


Piece = Column | Row


def collect_runs(glyphs: Iterable[Glyph]) -> list[Run]:
    """Collect glyphs, in the order in which they are drawn, into words and runs."""
    collector = _Collector()
    for glyph in glyphs:
        collector.add(glyph)
    collector.end_run()
    return _with_markers(collector.runs)


def read_pieces(page: Page) -> list[Piece]:
    """Bring the runs of a page into the order in which they are read; turned ones come last."""
    runs = page.runs
    pieces = _cut([run for run in runs if not run.is_turned], 0)
    turned = [Column([_line([run])]) for run in runs if run.is_turned]
    for piece in pieces:
        for line in piece.lines if isinstance(piece, Column) else ():
            line.has_dot = any(_is_bullet(dot, line) for dot in page.dots)
    return pieces + turned


def _is_bullet(dot: Box, line: Line) -> bool:
    """Whether a small shape stands before a line, where a bullet would."""
    return (
        dot.height < 0.7 * line.size
        and line.box.top < dot.middle < line.box.bottom
        and 0 <= line.box.left - dot.right <= 2 * line.size
    )


@dataclass
class _Collector:
    runs: list[Run] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    last: Glyph | None = None
    is_apart: bool = True  # white space was drawn since the last glyph

    def add(self, glyph: Glyph) -> None:
        if glyph.box is None:
            self.is_apart = True
            return
        if self.last is not None and not _goes_on(self.last, glyph):
            self.end_run()
        if self.words and not self.is_apart:
            word = self.words[-1]
            word.text += glyph.text
            word.box = _union((word.box, glyph.box))
        else:
            self.words.append(Word(glyph.text, glyph.box, glyph.is_bold))
        self.last, self.is_apart = glyph, False

    def end_run(self) -> None:
        if self.words and self.last is not None:
            box = _union([word.box for word in self.words])
            size = median(word.box.height for word in self.words)
            self.runs.append(Run(self.words, box, size, len(self.runs), self.last.is_turned))
        self.words, self.last, self.is_apart = [], None, True


def _goes_on(last: Glyph, glyph: Glyph) -> bool:
    """Return whether a glyph belongs to the run of the one before it."""
    before, box = last.box, glyph.box
    if before is None or box is None or last.is_turned != glyph.is_turned:
        return False
    size = max(before.height, box.height, 1e-3)
    if glyph.is_turned:
        down = max(box.top - before.bottom, before.top - box.bottom)
        across = max(box.left - before.right, before.left - box.right)
        return max(down, across) <= RUN_GAP * size
    if abs(before.left - box.left) + abs(before.right - box.right) < 0.1 * size:
        return True  # letters of a ligature have one box
    overlap = min(before.bottom, box.bottom) - max(before.top, box.top)
    if overlap < 0.5 * min(before.height, box.height):
        return False
    if _is_right_to_left(glyph.text) or _is_right_to_left(last.text):
        return max(before.left - box.right, box.left - before.right) <= RUN_GAP * size
    return -0.7 * size <= box.left - before.right <= RUN_GAP * size


def _with_markers(runs: list[Run]) -> list[Run]:
    """Join the marks of list items to the text behind them, however far that is indented."""
    found: list[Run] = []
    for run in runs:
        before = found[-1] if found else None
        if before is not None and _is_marker(before, run):
            box = Box(before.box.left, run.box.top, run.box.right, run.box.bottom)
            words = before.words + run.words
            found[-1] = Run(words, box, run.size, before.order, run.is_turned)
        else:
            found.append(run)
    return found


def _is_marker(mark: Run, text: Run) -> bool:
    if len(mark.words) > 1 or mark.is_turned or text.is_turned:
        return False
    gap = text.box.left - mark.box.right
    is_level = abs(mark.box.middle - text.box.middle) < 0.5 * max(mark.size, text.size)
    return (
        is_level
        and 0 <= gap <= MARKER_GAP * max(mark.size, text.size)
        and MARK_BEFORE.fullmatch(mark.words[0].text) is not None
        and not text.words[0].text[0].isdigit()
    )


def _cut(runs: list[Run], depth: int) -> list[Piece]:
    """Divide runs into pieces in reading order."""
    if not runs:
        return []
    slabs = _slabs(runs)
    if depth >= MAX_DEPTH:
        return _column(slabs)
    pieces: list[Piece] = []
    waiting: list[list[Run]] = []  # slabs that are lines, unless columns below claim them
    index = 0
    while index < len(slabs):
        end = _end_of_zone(slabs, index)
        if end is None:
            waiting.append(slabs[index])
            index += 1
            continue
        zone = slabs[index:end]
        gutters = _gutters([run for slab in zone for run in slab])
        while waiting and _belongs_above(waiting[-1], zone, gutters):
            zone.insert(0, waiting.pop())
        pieces += _column(waiting)
        waiting = []
        pieces += _read_zone(zone, gutters, depth)
        index = end
    return pieces + _column(waiting)


def _slabs(runs: Sequence[Run]) -> list[list[Run]]:
    """Divide runs by horizontal lines that cross none of them near its middle."""
    ordered = sorted(runs, key=lambda run: run.box.middle - CORE * run.size)
    slabs: list[list[Run]] = []
    bottom = 0.0
    for run in ordered:
        top = run.box.middle - CORE * run.size
        if slabs and top < bottom:
            slabs[-1].append(run)
            bottom = max(bottom, run.box.middle + CORE * run.size)
        else:
            slabs.append([run])
            bottom = run.box.middle + CORE * run.size
    return slabs


def _gutters(runs: Sequence[Run]) -> list[tuple[float, float]]:
    """The vertical strips of white space between runs: their left and right edges."""
    least = GUTTER * _size(runs)
    found, edge = [], None
    for left, right in sorted((run.box.left, run.box.right) for run in runs):
        if edge is not None and left - edge >= least:
            found.append((edge, left))
        edge = right if edge is None else max(edge, right)
    return found


def _end_of_zone(slabs: Sequence[list[Run]], start: int) -> int | None:
    """The end of the columns that begin with a slab; None if none begin there."""
    if len(slabs[start]) < 2 or not _gutters(slabs[start]):
        return None
    end, runs = start + 1, list(slabs[start])
    gutters = _gutters(runs)
    while end < len(slabs) and (narrowed := _narrowed(gutters, slabs[end], _size(runs[:50]))):
        gutters = narrowed
        runs += slabs[end]
        end += 1
    while end > start + 1 and _is_after(slabs[end - 1], slabs[start : end - 1], gutters):
        end -= 1
    gutters = _gutters([run for slab in slabs[start:end] for run in slab])
    if not gutters:
        return None
    widest = max(right - left for left, right in gutters)
    needed = 2 if widest >= WIDE_GUTTER * _size(runs) else 3
    rows = sum(_num_sides(slab, gutters) > 1 for slab in slabs[start:end])
    if rows == 1 and end == start + 1:  # columns whose lines are not level
        sides = _divide(slabs[start], gutters)
        return end if sum(len(_slabs(side)) > 1 for side in sides) > 1 else None
    uneven = any(len(_slabs(side)) > 1 for slab in slabs[start:end]
                 for side in _divide(slab, gutters) if side)  # fmt: skip
    return end if rows >= (2 if uneven or len(gutters) > 1 else needed) else None


def _narrowed(
    gutters: Sequence[tuple[float, float]], slab: Sequence[Run], size: float
) -> list[tuple[float, float]]:
    """What a further slab leaves of gutters, where that is wide enough."""
    found = []
    boxes = sorted((run.box.left, run.box.right) for run in slab)
    for left, right in gutters:
        edge = left
        for first, last in [*boxes, (right, right)]:
            if last <= edge:
                continue
            if first >= right:
                first = right
            if first - edge >= GUTTER * size:
                found.append((edge, first))
            edge = max(edge, last)
            if edge >= right:
                break
    return found


def _is_after(
    slab: Sequence[Run], zone: Sequence[Sequence[Run]], gutters: Sequence[tuple[float, float]]
) -> bool:
    """Whether a slab at the end of columns is under one but the last, and drawn after them all."""
    sides = {_side(run, gutters) for run in slab}
    if len(sides) > 1 or sides == {len(gutters)}:  # what follows the last column may go with it
        return False
    return min(run.order for run in slab) > max(run.order for part in zone for run in part)


def _belongs_above(
    slab: Sequence[Run], zone: Sequence[Sequence[Run]], gutters: Sequence[tuple[float, float]]
) -> bool:
    """Whether a slab above columns is the top of one that is not the first."""
    boxes = [run.box for run in slab]
    if any(box.left < right and box.right > left for box in boxes for left, right in gutters):
        return False
    if all(box.right <= gutters[0][0] for box in boxes):
        return False
    first = [run for part in zone for run in part if run.box.right <= gutters[0][0]]
    is_drawn_later = min(run.order for run in slab) > max((run.order for run in first), default=0)
    gap = min(run.box.top for run in zone[0]) - max(box.bottom for box in boxes)
    return is_drawn_later and gap <= 1.5 * _size(slab)


def _divide(runs: Iterable[Run], gutters: Sequence[tuple[float, float]]) -> list[list[Run]]:
    """The runs on each side of gutters, from left to right."""
    sides: list[list[Run]] = [[] for _ in range(len(gutters) + 1)]
    for run in runs:
        sides[_side(run, gutters)].append(run)
    return sides


def _side(run: Run, gutters: Sequence[tuple[float, float]]) -> int:
    middle = (run.box.left + run.box.right) / 2
    return sum(middle > (left + right) / 2 for left, right in gutters)


def _num_sides(slab: Sequence[Run], gutters: Sequence[tuple[float, float]]) -> int:
    return len({_side(run, gutters) for run in slab})


def _read_zone(
    slabs: Sequence[Sequence[Run]], gutters: Sequence[tuple[float, float]], depth: int
) -> list[Piece]:
    """Read columns: of prose one after the other, of a table row by row."""
    runs = [run for slab in slabs for run in slab]
    columns = [column for column in _divide(runs, gutters) if column]
    drawn = sorted((run.order, index) for index, column in enumerate(columns) for run in column)
    switches = sum(one[1] != other[1] for one, other in itertools.pairwise(drawn))
    is_prose = sum(map(_is_prose, columns)) > 1 and len(columns) <= 3
    if switches < len(columns) and (is_prose or not _is_level(slabs, gutters)):
        return [piece for column in columns for piece in _cut(column, depth + 1)]
    rows = _rows(slabs, gutters)
    if not is_prose:
        return [Row([_words(cell) for cell in row if cell]) for row in rows]
    if len(rows) * 3 > len(slabs):  # drawn line by line across all columns
        return [piece for column in columns for piece in _cut(column, depth + 1)]
    return [piece for row in rows for cell in row for piece in _cut(cell, depth + 1)]


def _is_prose(column: Sequence[Run]) -> bool:
    lines = _slabs(column)
    width = max(run.box.right for run in column) - min(run.box.left for run in column)
    words = sum(len(run.words) for run in column) / len(lines)
    filled = [
        max(run.box.right for run in line) - min(run.box.left for run in line) for line in lines
    ]
    is_full = sum(filled) >= PROSE_FILL * width * len(lines)
    return len(lines) > 1 and words >= PROSE_WORDS and is_full


def _is_level(
    slabs: Sequence[Sequence[Run]], gutters: Sequence[tuple[float, float]]
) -> bool:  # fmt: skip
    """Whether short cells of several columns stand beside each other on most lines."""
    both = sum(_num_sides(slab, gutters) > 1 for slab in slabs)
    words = sum(len(run.words) for slab in slabs for run in slab)
    cells = sum(_num_sides(slab, gutters) for slab in slabs)
    return both * 3 >= len(slabs) * 2 and words <= 3 * cells


def _rows(
    slabs: Sequence[Sequence[Run]], gutters: Sequence[tuple[float, float]]
) -> list[list[list[Run]]]:  # fmt: skip
    """The rows of a table that is drawn row by row, each a list of cells, whose lines may be many.

    If it is not drawn so, each slab is a row.
    """
    by_order = sorted(
        (run.order, _side(run, gutters), index, run)
        for index, slab in enumerate(slabs)
        for run in slab
    )
    crowded = [_num_sides(slab, gutters) > 1 for slab in slabs]
    rows: list[list[list[Run]]] = []
    last_side, last_slab = len(gutters) + 1, -1
    for _, side, slab, run in by_order:
        is_new = side < last_side or (
            side == last_side and slab != last_slab and not crowded[last_slab] and crowded[slab]
        )
        if is_new:
            rows.append([[] for _ in range(len(gutters) + 1)])
        rows[-1][side].append(run)
        last_side, last_slab = side, slab
    tops = [min(run.box.middle for cell in row for run in cell) for row in rows]
    bottoms = [max(run.box.middle for cell in row for run in cell) for row in rows]
    if all(low < top for low, top in zip(bottoms, tops[1:], strict=False)):
        return rows
    return [_divide(slab, gutters) for slab in slabs]


def _lines(slab: Sequence[Run]) -> list[Line]:
    """The lines of a slab that could not be divided: one, unless runs stand above each other."""
    lines: list[list[Run]] = []
    for run in sorted(slab, key=lambda run: run.order):
        if lines and _is_above(lines[-1], run):
            lines.append([run])
        elif lines:
            lines[-1].append(run)
        else:
            lines.append([run])
    return [_line(line) for line in lines]


def _is_above(line: Sequence[Run], run: Run) -> bool:
    """Whether a run overlaps a line from above to below, so that it cannot be on it."""
    return any(
        min(one.box.right, run.box.right) - max(one.box.left, run.box.left) > one.size
        and abs(one.box.middle - run.box.middle) > 0.5 * min(one.size, run.size)
        for one in line
    )


def _column(slabs: Sequence[Sequence[Run]]) -> list[Piece]:
    lines = [line for slab in slabs for line in _lines(slab)]
    return [Column(lines)] if lines else []


def _line(runs: Sequence[Run]) -> Line:
    box = _union([run.box for run in runs])
    return Line(_words(runs), box, _size(runs))


def _words(runs: Sequence[Run]) -> list[Word]:
    """The words of runs in reading order: lines from the top, each from its beginning."""
    found: list[Word] = []
    for line in _slabs(runs) if len(runs) > 1 else [list(runs)]:
        letters = "".join(word.text for run in line for word in run.words)
        backwards = _is_right_to_left(letters)
        line.sort(key=lambda run: -run.box.right if backwards else run.box.left)
        last: Run | None = None
        for run in line:
            gap = SPACE if last is None else (run.box.left - last.box.right) / max(run.size, 1e-3)
            words = list(run.words)
            if last is not None and not backwards and abs(gap) < SPACE:
                first = words.pop(0)
                joined = _union((found[-1].box, first.box))
                found[-1] = Word(found[-1].text + first.text, joined, first.is_bold)
            found += words
            last = run
    return found


def _size(runs: Sequence[Run]) -> float:
    """The height of most runs' glyphs, long runs counting more."""
    sizes = [run.size for run in runs for _ in range(min(8, len(run.words)))]
    return median(sizes) if sizes else 0.0


def _union(boxes: Sequence[Box]) -> Box:
    return Box(
        min(box.left for box in boxes),
        min(box.top for box in boxes),
        max(box.right for box in boxes),
        max(box.bottom for box in boxes),
    )


def _is_right_to_left(text: str) -> bool:
    """Whether most letters of a text are of scripts that are written from right to left."""
    if text.isascii():
        return False
    kinds = [unicodedata.bidirectional(char) for char in text]
    return sum(kind in ("R", "AL") for kind in kinds) > sum(kind == "L" for kind in kinds)


def words_of(pieces: Iterable[Piece]) -> Iterator[Word]:
    """All words of pieces, in their order."""
    for piece in pieces:
        if isinstance(piece, Column):
            yield from (word for line in piece.lines for word in line.words)
        else:
            yield from (word for cell in piece.cells for word in cell)
