"""Plain text, in whatever encoding it is."""

from dataclasses import dataclass
from pathlib import Path

from ingest.encoding import read_text
from ingest.limits import Limits
from ingest.text import DocumentText, join_pages


@dataclass(frozen=True)
class TxtExtractor:
    """Text as it stands; form feeds, the page breaks of old printers, stay in it."""

    def extract(self, path: Path) -> DocumentText:
        """The whole file as one page."""
        return join_pages([read_text(path)])


def build(_limits: Limits) -> TxtExtractor:
    """The plug-in's entry."""
    return TxtExtractor()
