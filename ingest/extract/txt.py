"""Plain text files in any encoding."""

from dataclasses import dataclass
from pathlib import Path

from ingest.encoding import read_text
from ingest.limits import Limits
from ingest.text import DocumentText, join_pages


@dataclass(frozen=True)
class TxtExtractor:
    """Returns the text as it is; form feeds are not treated as page breaks."""

    def extract(self, path: Path) -> DocumentText:
        """Return the text of the file at `path` as one page."""
        return join_pages([read_text(path)])


def build(_limits: Limits) -> TxtExtractor:
    """Make the extractor; this is the plug-in's entry point."""
    return TxtExtractor()
