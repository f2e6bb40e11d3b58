"""The structure of a document's text: its blocks, and the passages that evidence consists of."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from common.sentences import sentence_spans

LONGEST_HEADING = 200  # characters of a heading that are told
_LINE = re.compile(r"[^\n]*\S[^\n]*")
_QUOTED_LINE = re.compile(r"\n[ \t]*(?:>[ \t]*)+")
_MARKER = re.compile(r"(?:\d{1,3}|[A-Za-z]|[ivxlcIVXLC]{1,6})[.)]|\([\dA-Za-z]{1,4}\)|[-*+\u2022]")
_LAST_WORD = re.compile(r"(?:^|(?<=[\s(\[\"'\u201c\u2018/]))(\w[\w.\u2019'-]*)\.\s*$")
_FIRST_WORD = re.compile(r"[\s(\[\"'\u201c\u2018]*([\w\u2019'-]+)")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Abbreviations that always stand before something, that do so before a number, and others, after
# which a sentence begins only with a word that begins sentences. Compared in lower case.
_BEFORE_WORDS = _words(
    """mr mrs ms dr prof cllr st mt fig figs eq eqs tab ch vol vols e.g i.e cf vs v gen col lt capt
    sgt maj rev hon gov sen rep pres messrs mme mlle approx bzw z.b d.h u.a vgl hr fr frl p.ex sog
    resp viz op ed eds dept"""
)
_BEFORE_NUMBERS = _words(
    """no nos tel p pp art arts sec secs par paras nr abs cl ref refs abb kap bd s ca c jan feb mar
    apr jun jul aug sep sept oct nov dec n"""
)
_WITHIN = _words(
    """u.s u.k u.n e.u u.s.a d.c a.m p.m etc inc ltd co corp jr sr al bros ph.d m.d b.a m.a b.c a.d
    est usw ave blvd rd"""
)
_STARTERS = _words(
    """the a an this that these those it its he she they we i you his her their our in on at by for
    from with after before as if when while where there then but and or so yet however although
    though because since until during under over both each all some many most few no not such what
    who which why how another other one two three also it's he's she's today later meanwhile der die
    das ein eine es er sie wir im am bei mit nach vor wenn als"""
)
_MONTHS = _words(
    """januar februar märz april mai juni juli august september oktober november dezember"""
)


class BlockKind(StrEnum):
    """What a block of text is."""

    HEADING = "heading"
    PARAGRAPH = "paragraph"
    LIST_ITEM = "list_item"
    TABLE_ROW = "table_row"
    CODE = "code"


KINDS = tuple(BlockKind)  # in the order in which their numbers are stored


@dataclass(frozen=True)
class Block:
    """A heading, paragraph, list item, table row or piece of code.

    Attributes:
        kind: what it is.
        start, end: its half-open span of characters in the document's text.
        level: of a heading, from 1 for the highest; of other blocks 0.
    """

    kind: BlockKind
    start: int
    end: int
    level: int = 0


@dataclass(frozen=True)
class Passage:
    """A sentence, table row, heading or line of code; a list item is one, or some, sentences.

    Attributes:
        start, end: its half-open span of characters in the document's text.
        block: index of the block that it is part of.
    """

    start: int
    end: int
    block: int


@dataclass(frozen=True)
class Place:
    """Where a passage stands in its document.

    Attributes:
        heading: text of the nearest heading above it, which may be itself; None if there is none.
        paragraph: number of its block below that heading, from 1; None for a heading.
    """

    heading: str | None
    paragraph: int | None


@dataclass(frozen=True)
class DocumentStructure:
    """The blocks and passages of a document, each in the order of the text, without overlaps."""

    blocks: tuple[Block, ...]
    passages: tuple[Passage, ...]

    def find_passage(self, char: int) -> int | None:
        """Return the index of the passage that a character is in, or else of the last before it.

        Returns: None for a character before all passages.
        """
        index = bisect_right(self.passages, char, key=lambda passage: passage.start) - 1
        return index if index >= 0 else None

    def find_place(self, text: str, passage: Passage) -> Place:
        """Say below which heading a passage stands, and in which paragraph.

        Args:
            text: the document's text.
        """
        above = bisect_right(self._headings, passage.block)
        if above == 0:
            return Place(None, passage.block + 1)
        index = self._headings[above - 1]
        block = self.blocks[index]
        heading = " ".join(text[block.start : block.end].split())[:LONGEST_HEADING]
        return Place(_without_marks(heading), passage.block - index or None)

    @cached_property
    def _headings(self) -> tuple[int, ...]:
        """Indices of the blocks that are headings."""
        numbered = enumerate(self.blocks)
        return tuple(index for index, block in numbered if block.kind is BlockKind.HEADING)


NO_STRUCTURE = DocumentStructure((), ())


def structure_of(text: str, blocks: Sequence[Block]) -> DocumentStructure:
    """Divide blocks into passages.

    A heading or a table row is a passage; a line of code is one; everything else is divided into
    sentences, whose lines may be broken anywhere.

    Args:
        text: the document's text.
        blocks: in the order of the text.
    """
    passages = [
        Passage(start, end, index)
        for index, block in enumerate(blocks)
        for start, end in _spans_of(text, block)
    ]
    return DocumentStructure(tuple(blocks), tuple(passages))


def plain_structure(text: str) -> DocumentStructure:
    """The structure of a text of which nothing is known: each line is a paragraph."""
    return structure_of(text, [Block(BlockKind.PARAGRAPH, *span) for span in line_spans(text)])


def quote_of(text: str, start: int, end: int, longest: int | None = None) -> str:
    """A passage as it is shown: lines, which may be broken anywhere, joined with blanks.

    Marks before each line of a passage that is quoted in Markdown or in a letter are left out.

    Args:
        longest: characters of what is shown: of a longer passage the beginning, and an ellipsis.
            None for all of it.
    """
    if longest is None:
        return _shown(text[start:end])
    near = min(end, start + 2 * longest)  # a whole text without full stops may be one passage
    quote = _shown(text[start:near])
    if near < end and len(quote) <= longest:
        quote = _shown(text[start:end])
    return quote if len(quote) <= longest else quote[: longest - 1] + "…"


def line_spans(text: str) -> Iterator[tuple[int, int]]:
    """Half-open spans of the lines that are not blank, without white space around them."""
    for line in _LINE.finditer(text):
        start, end = _stripped(text, *line.span())
        yield start, end


def whole_sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """Half-open spans of the sentences of a paragraph; line breaks do not end them.

    Unicode's rules end a sentence behind each abbreviation that a capital follows; here sentences
    go on behind titles, initials, numbers of list items and abbreviations that are no last words.
    """
    joined = text.replace("\n", " ").replace("\r", " ").replace("\u2028", " ").replace("\x0b", " ")
    start = end = None
    for first, last in sentence_spans(joined):
        if start is not None and end is not None and not _goes_on(joined, start, end, first):
            yield start, end
            start = None
        start, end = first if start is None else start, last
    if start is not None and end is not None:
        yield start, end


def _shown(passage: str) -> str:
    return " ".join(_QUOTED_LINE.sub("\n", passage).split())


def _spans_of(text: str, block: Block) -> Iterable[tuple[int, int]]:
    start, end = _stripped(text, block.start, block.end)
    if start == end:
        return ()
    if block.kind is BlockKind.CODE:
        return [(start + first, start + last) for first, last in line_spans(text[start:end])]
    if block.kind in (BlockKind.HEADING, BlockKind.TABLE_ROW):
        return [(start, end)]
    return [(start + first, start + last) for first, last in whole_sentence_spans(text[start:end])]


def _goes_on(text: str, start: int, end: int, following: int) -> bool:
    """Return whether what was found as two sentences is one.

    Args:
        start, end: span of the first.
        following: where the second begins.
    """
    if _MARKER.fullmatch(text[start:end]) and len(text[start:end]) <= 5:
        return True
    following_word = _FIRST_WORD.match(text, following)
    after = following_word.group(1) if following_word else ""
    if after[:1].islower():  # "Who is it?" he asked.
        return True
    found = _LAST_WORD.search(text[max(start, end - 24) : end])
    if found is None:
        return False
    word = found.group(1)
    if len(word) == 1 and word.isupper() and word != "I":
        return after[:1].isupper() and after.lower() not in _STARTERS
    word = word.lower()
    if word in _BEFORE_WORDS or (word.isdigit() and after.lower() in _MONTHS):
        return True
    if word in _BEFORE_NUMBERS:
        return after[:1].isdigit()
    return word in _WITHIN and after.lower() not in _STARTERS


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    part = text[start:end]
    start += len(part) - len(part.lstrip())
    return start, max(start, start + len(part.strip()))


def _without_marks(heading: str) -> str:
    """A heading without the marks of Markdown."""
    return heading.lstrip("#").rstrip("#").strip() or heading
