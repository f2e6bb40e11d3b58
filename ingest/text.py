"""What extraction returns: plain text and where its pages lie."""

from collections.abc import Sequence
from dataclasses import dataclass

PAGE_BREAK = "\n\n"


@dataclass(frozen=True)
class PageSpan:
    """One page: characters `start` to `end` (half open) of the document's text.

    Attributes:
        number: counted from 1.
    """

    number: int
    start: int
    end: int


@dataclass(frozen=True)
class DocumentText:
    """A document as plain text. The pages cover the text without gap or overlap."""

    text: str
    pages: tuple[PageSpan, ...]


def join_pages(pages: Sequence[str]) -> DocumentText:
    """Join page texts with an empty line; the break belongs to the page before it.

    A page without text keeps its number and an empty (or break-only) span.
    """
    cleaned = [clean(page) for page in pages]
    parts = [page + PAGE_BREAK for page in cleaned[:-1]] + cleaned[-1:]
    spans, start = [], 0
    for number, part in enumerate(parts, 1):
        spans.append(PageSpan(number, start, start + len(part)))
        start += len(part)
    return DocumentText("".join(parts), tuple(spans))


def clean(text: str) -> str:
    """Drop NULs, turn every line end into \\n and lone surrogates into U+FFFD; no more than that.

    Unicode is not normalised: what was written with combining marks stays so.
    """
    text = text.replace("\x00", "").replace("\r\n", "\n").replace("\r", "\n")
    if any_surrogate(text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def any_surrogate(text: str) -> bool:
    """Whether `text` holds a code point that UTF-8 cannot carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
