"""The interface of an extractor, which is a module of this folder with `build(limits)`."""

from pathlib import Path
from typing import Protocol

from ingest.text import DocumentText


class Extractor(Protocol):
    """Extracts the text of one kind of file."""

    def extract(self, path: Path) -> DocumentText:
        """Return a file's text with the character spans of its pages.

        The time must be linear in the bytes that the file unpacks to. An extractor reads no other
        file, writes none and does not use the network.

        Args:
            path: the file.
        Raises: DocumentRejected or one of its subclasses if the reason is known; any other error
            counts as a damaged file.
        """
        ...
