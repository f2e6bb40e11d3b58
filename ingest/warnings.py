"""What a document's owner should know of its extracted text: what the file may hold beside it."""

from collections import Counter
from collections.abc import Mapping

from ingest.text import DocumentText

PAGES_WITHOUT_TEXT, UNDECODABLE, DROPPED = (
    "pages_without_text",
    "undecodable_bytes",
    "dropped_parts",
)
MOST_NAMED = 10
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def find_warnings(document: DocumentText) -> Mapping[str, str]:
    """Return what shows in the text itself: empty pages, and characters that were not decoded."""
    found = {}
    empty = [
        page.number for page in document.pages if not document.text[page.start : page.end].strip()
    ]
    if empty:
        named = ", ".join(map(str, empty[:MOST_NAMED]))
        others = f" and {len(empty) - MOST_NAMED} others" if len(empty) > MOST_NAMED else ""
        found[PAGES_WITHOUT_TEXT] = (
            f"{len(empty)} of {len(document.pages)} pages hold no text ({named}{others}). Scanned "
            "pages need text recognition first."
        )
    if num_lost := document.text.count(REPLACEMENT):
        found[UNDECODABLE] = (
            f"{num_lost} characters could not be decoded and stand in the text as {REPLACEMENT}."
        )
    return found


def dropped_parts(parts: Counter[str]) -> Mapping[str, str]:
    """Return the warning about parts of a file that are no text.

    Args:
        parts: how many there are of each kind, by its name in the plural.
    """
    listed = ", ".join(f"{count} {name}" for name, count in sorted(parts.items()) if count)
    return {DROPPED: f"The text does not hold what these show: {listed}."} if listed else {}
