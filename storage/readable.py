"""Documents that this process can be asked about before they are stored."""

import threading
from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True)
class ReadableDocument:
    """A document whose cache is in this process's memory, and not yet stored.

    Attributes:
        artifact_id: of the artifact that it is being stored as.
        num_tokens, num_pages: of its text.
        is_pinned: whether it is never to leave memory.
    """

    document_id: UUID
    artifact_id: UUID
    num_tokens: int
    num_pages: int
    is_pinned: bool = False


class ReadableDocuments:
    """Thread-safe; other processes know nothing of it, and after a crash nothing is left of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._documents: dict[UUID, ReadableDocument] = {}

    def add(self, document: ReadableDocument) -> None:
        """A document can be asked about from now on."""
        with self._lock:
            self._documents[document.document_id] = document

    def remove(self, document: ReadableDocument) -> None:
        """It is stored now, or given up."""
        with self._lock:
            if self._documents.get(document.document_id) is document:
                del self._documents[document.document_id]

    def find(self, document_id: UUID) -> ReadableDocument | None:
        """Return a document if it can be asked about and is not stored yet."""
        with self._lock:
            return self._documents.get(document_id)
