"""What a blob store does."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol


class Blobs(Protocol):
    """Bytes under keys that the store makes up; a caller's words never become one."""

    def put(self, path: Path) -> str:
        """Keep a copy of a file, durably; return its key. Raises: StorageFull."""

    def open(self, key: str) -> BinaryIO:
        """Open a blob for reading. Raises: OriginalMissing."""

    def path(self, key: str) -> Path:
        """Return a local file with the blob's bytes, to be read only. Raises: OriginalMissing."""

    def delete(self, key: str) -> None:
        """Forget a blob; one that is gone already is no error."""

    def keys(self) -> Iterator[str]:
        """Yield every key, those of unfinished copies among them."""
