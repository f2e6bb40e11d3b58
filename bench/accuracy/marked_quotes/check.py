"""Whether passages begin and end where a person cut them, and words have boxes on the right page.

    python -m bench.accuracy.marked_quotes.check

Ten PDF, DOCX, HTML and Markdown files of several layouts are extracted in the limited child, as
uploads are. For each quote of `marks.toml` the passage around its middle is compared with it, white
space aside. For each word of a quote in a PDF, what the page shows inside the word's box must be
that word.
"""

import argparse
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pypdfium2

from bench import RESULTS
from common.passages import DocumentStructure, Passage, quote_of, structure_of
from ingest.inspect import SUFFIXES
from ingest.limits import Limits
from ingest.page_words import UNIT, PageWords, WordBox
from ingest.sandbox import extract_limited
from ingest.text import DocumentText
from training.record import NO_MODEL, circumstances, write

HERE = Path(__file__).parent
MARKS, FILES = HERE / "marks.toml", HERE / "files"
NO_LETTERS = re.compile(r"[\s|>\-\u2010\u00ad]+")
LIGATURES = {"\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl"}


@dataclass(frozen=True)
class Mark:
    """A quote, with the page that it begins on in a PDF."""

    file: str
    page: int | None
    quote: str


@dataclass(frozen=True)
class Checked:
    """What became of a mark.

    Attributes:
        found: the passage around its middle, or nothing.
        is_cut_well: whether that is the quote.
        num_words, num_boxes: of a PDF, and those with a box that shows them on the right page.
    """

    mark: Mark
    found: str
    is_cut_well: bool
    num_words: int
    num_boxes: int


def read_marks() -> list[Mark]:
    """All marks."""
    found = []
    for file in tomllib.loads(MARKS.read_text(encoding="utf-8"))["file"]:
        found += [Mark(file["name"], None, quote) for quote in file.get("quotes", ())]
        for number, quotes in enumerate(file.get("pages", ()), 1):
            found += [Mark(file["name"], number, quote) for quote in quotes]
    return found


def check_file(name: str, marks: Sequence[Mark]) -> Iterator[Checked]:
    """Extract a file and check its marks."""
    path = FILES / name
    document = extract_limited(path, SUFFIXES[path.suffix], Limits())
    structure = structure_of(document.text, document.blocks)
    letters, places = _letters(document.text)
    for mark in marks:
        yield _check(mark, path, document, structure, letters, places)


def _check(
    mark: Mark,
    path: Path,
    document: DocumentText,
    structure: DocumentStructure,
    letters: str,
    places: Sequence[int],
) -> Checked:
    wanted = _letters(mark.quote)[0]
    middle = len(wanted) // 2
    at = letters.find(wanted)
    for again in _occurrences(letters, wanted):  # a heading's words may stand elsewhere, too
        index = structure.find_passage(places[again + middle])
        if index is not None and _is_cut_well(document, structure.passages[index], mark):
            at = again
            break
    if at < 0:  # it was torn apart: look for its middle
        part = wanted[max(0, middle - 8) : middle + 8]
        at, middle = letters.find(part), len(part) // 2
    index = structure.find_passage(places[at + middle]) if at >= 0 else None
    if index is None:
        return Checked(mark, "", False, len(mark.quote.split()), 0)
    passage = structure.passages[index]
    found = quote_of(document.text, passage.start, passage.end)
    num_words, num_boxes = 0, 0
    if mark.page is not None:
        words = [
            (page, word)
            for page in document.words
            for word in page.words
            if passage.start <= word.start < passage.end
        ]
        num_words = len(words)
        shown = _boxes_that_show(path, document, words)
        is_on_page = bool(words) and words[0][0].number == mark.page
        num_boxes = shown if is_on_page else 0
    is_cut_well = _is_cut_well(document, passage, mark)
    return Checked(mark, found, is_cut_well, num_words, num_boxes)


def _boxes_that_show(
    path: Path, document: DocumentText, words: Sequence[tuple[PageWords, WordBox]]
) -> int:
    """How many boxes show their words, and no more, on their pages."""
    found = 0
    with pypdfium2.PdfDocument(path) as pdf:
        texts = {}
        for page, word in words:
            if page.number not in texts:
                texts[page.number] = pdf[page.number - 1].get_textpage()
            height = page.height / UNIT
            shown = texts[page.number].get_text_bounded(
                left=word.left / UNIT,
                right=word.right / UNIT,
                top=height - word.top / UNIT,
                bottom=height - word.bottom / UNIT,
            )
            found += _letters(shown)[0] == _letters(document.text[word.start : word.end])[0]
    return found


def _letters(text: str) -> tuple[str, list[int]]:
    """A text without white space, hyphens and ligatures, and where each of its letters stood."""
    letters, places = [], []
    for place, char in enumerate(text):
        if NO_LETTERS.fullmatch(char) or not char.isprintable():
            continue
        for letter in LIGATURES.get(char, char):
            letters.append(letter)
            places.append(place)
    return "".join(letters), places


def _occurrences(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _is_cut_well(document: DocumentText, passage: Passage, mark: Mark) -> bool:
    quote = " ".join(mark.quote.split())
    return quote_of(document.text, passage.start, passage.end) == quote


def main(given: Sequence[str] | None = None) -> None:
    """Check all marks, print what is wrong and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    options = parser.parse_args(given)
    marks = read_marks()
    names = list(dict.fromkeys(mark.file for mark in marks))
    checked = [
        one for name in names for one in check_file(name, [m for m in marks if m.file == name])
    ]
    for one in checked:
        if not one.is_cut_well or one.num_boxes < one.num_words:
            print(f"{one.mark.file} {one.num_boxes}/{one.num_words}: {one.mark.quote!r}")
            print(f"    found {one.found!r}")
    result = summarise(checked)
    print(
        f"{result['cut_well']:.3f} of {result['quotes']} cut well, {result['boxes']:.3f} of boxes"
    )
    write("marked_quotes", result, options.out)


def summarise(checked: Sequence[Checked]) -> dict[str, Any]:
    """The result: shares of quotes and of words' boxes that are right."""
    num_words = sum(one.num_words for one in checked)
    return {
        "benchmark": "marked_quotes",
        **circumstances("cpu", NO_MODEL),
        "quotes": len(checked),
        "cut_well": sum(one.is_cut_well for one in checked) / len(checked),
        "words": num_words,
        "boxes": sum(one.num_boxes for one in checked) / max(1, num_words),
    }


if __name__ == "__main__":
    main()
