"""Where the words of a PDF are drawn on its pages, and the file that stores it."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from common.errors import CorruptArtifact

WORDS_FILE = "words.json"  # of an artifact
UNIT = 10  # numbers of the file in a point: boxes are stored in tenths


@dataclass(frozen=True)
class WordBox:
    """A word, or the part of a broken word on one line.

    Attributes:
        start, end: its half-open span of characters in the document's text.
        left, top, right, bottom: of its box in tenths of a point (1/720 inch), from the upper left
            corner of the page as it is shown.
    """

    start: int
    end: int
    left: int
    top: int
    right: int
    bottom: int


@dataclass(frozen=True)
class PageWords:
    """The words of one page.

    Attributes:
        number: the page's number, from 1.
        width, height: of the page as it is shown, in tenths of a point.
        words: in the order of the text.
    """

    number: int
    width: int
    height: int
    words: tuple[WordBox, ...]


def pack_words(pages: Iterable[PageWords]) -> bytes:
    """Make the file: JSON, a list for each page of its size and of the numbers of its words."""
    return json.dumps(words_to_json(pages), separators=(",", ":")).encode()


def unpack_words(data: bytes) -> tuple[PageWords, ...]:
    """Read the file. Raises: CorruptArtifact if it is none."""
    try:
        return words_from_json(json.loads(data))
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptArtifact("The stored boxes of words are not what they should be.") from error


def words_to_json(pages: Iterable[PageWords]) -> list[Any]:
    """Pages as JSON values: number, width, height, and six numbers a word, one after the other."""
    return [
        [page.number, page.width, page.height, [n for word in page.words for n in _numbers(word)]]
        for page in pages
    ]


def words_from_json(pages: Sequence[Any]) -> tuple[PageWords, ...]:
    """What `words_to_json` made. Raises: ValueError, TypeError for anything else."""
    return tuple(
        PageWords(
            number,
            width,
            height,
            tuple(WordBox(*numbers[at : at + 6]) for at in range(0, len(numbers), 6)),
        )
        for number, width, height, numbers in pages
    )


def _numbers(word: WordBox) -> tuple[int, ...]:
    return word.start, word.end, word.left, word.top, word.right, word.bottom
