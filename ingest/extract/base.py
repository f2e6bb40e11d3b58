"""What every extractor is: a file in this folder with `build(limits)`."""

from pathlib import Path
from typing import Protocol

from ingest.text import DocumentText


class Extractor(Protocol):
    """Reads one kind of file."""

    def extract(self, path: Path) -> DocumentText:
        """The file's text with page spans.

        Time is linear in the bytes that the file unpacks to. Nothing but `path` is read, nothing
        is written, no network is used.

        Raises: DocumentRejected or its kin where the reason is known; anything else where the file
            is broken (the caller turns that into DocumentRejected).
        """
        ...
