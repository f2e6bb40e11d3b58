"""The interface of a blob store."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol


class Blobs(Protocol):
    """Stores bytes under keys that it chooses itself; callers' input never becomes a key."""

    def put(self, path: Path) -> str:
        """Store a copy of a file, and return when it is safely on the disk.

        Args:
            path: the file to copy.
        Returns: the new key.
        Raises: StorageFull.
        """

    def open(self, key: str) -> BinaryIO:
        """Return a blob's bytes as an open file. Raises: OriginalMissing."""

    def path(self, key: str) -> Path:
        """Return the path of a local file with the blob's bytes, which must only be read.

        Raises: OriginalMissing.
        """

    def delete(self, key: str) -> None:
        """Remove a blob; it is no error if there is none under this key."""

    def keys(self) -> Iterator[str]:
        """Yield every key, including those of copies that were never finished."""
