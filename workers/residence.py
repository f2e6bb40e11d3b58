"""The interface between a worker and the server in the same process."""

from contextlib import AbstractContextManager
from typing import Any, Protocol

from storage.readable import ReadableDocument


class Residence(Protocol):
    """The documents in the memory of the server that runs in this process."""

    def room(self, num_bytes: int) -> AbstractContextManager[Any]:
        """Keep room in memory for a document that is being read, while the block runs.

        Args:
            num_bytes: that it will nearly have.
        Returns: what `keep` wants to know about the room.
        """

    def keep(
        self, document: ReadableDocument, cache: Any, room: Any
    ) -> AbstractContextManager[None]:
        """Let questions be asked about a document while it is being stored, in the block.

        If the block ends with an error the document is given up. Otherwise it has been stored, and
        stays in memory as any other.

        Args:
            cache: the document as the engine holds it.
            room: from `room`; None if none was kept.
        """
