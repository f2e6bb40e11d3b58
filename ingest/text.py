"""Extracted text, and the character spans of its pages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

PAGE_BREAK = "\n\n"


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
    """A document as plain text; its pages cover the text without gaps and overlaps.

    Attributes:
        warnings: by code, a sentence about what could not be taken from the file.
    """

    text: str
    pages: tuple[PageSpan, ...]
    warnings: Mapping[str, str] = field(default_factory=dict)


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
