"""What the worker in the server's process may do with the documents in the server's memory."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import structlog

from common.errors import LecternError
from engine.document.cache import DocumentCache
from engine.residents.documents import ResidentDocuments, Room
from storage.readable import ReadableDocument, ReadableDocuments


@dataclass(frozen=True)
class ServerResidence:
    """Makes room for documents that are being read, and takes them over before they are stored.

    A document for which there is no room is read all the same: it is loaded when it is asked about.
    """

    documents: ResidentDocuments[DocumentCache]
    readable: ReadableDocuments

    @contextmanager
    def room(self, num_bytes: int) -> Iterator[Room | None]:
        """Keep room for a document that is being read, while the block runs; None if there is none.

        Args:
            num_bytes: that it will nearly have.
        """
        with ExitStack() as stack:
            try:
                room = stack.enter_context(self.documents.room(num_bytes))
            except LecternError as error:
                _log_no_room(num_bytes, error)
                room = None
            yield room

    @contextmanager
    def keep(
        self, document: ReadableDocument, cache: DocumentCache, room: Room | None
    ) -> Iterator[None]:
        """Let questions be asked about a document while it is being stored, in the block.

        If the block ends with an error the document is given up. Otherwise it has been stored, and
        stays in memory as any other.

        Args:
            cache: the document as the engine holds it.
            room: from `room`.
        """
        key = document.artifact_id
        try:
            lease = self.documents.put(
                key,
                cache,
                document=document.document_id,
                room=room,
                pinned=document.is_pinned,
            )
        except LecternError as error:
            _log_no_room(cache.num_bytes, error)
            yield
            return
        with lease:
            self.readable.add(document)
            try:
                yield
            except BaseException:
                self.documents.drop(key)
                raise
            finally:
                self.readable.remove(document)


def _log_no_room(num_bytes: int, error: LecternError) -> None:
    log = structlog.get_logger("lectern.documents")
    log.warning("no room in memory for a document", num_bytes=num_bytes, reason=error.code)
