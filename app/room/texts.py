"""Texts of documents that pages show part by part, kept in memory for a short while."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from fastapi.concurrency import run_in_threadpool

from app.documents.content import read_text
from app.room.text_parts import Part, divide_text
from app.services.services import Services
from common.errors import InvalidInput, Permanent
from common.owner import Owner
from common.passages import plain_structure, structure_of
from common.versions import TEXT_FORMAT
from engine.document.artifact import DocumentText
from engine.document.cache import Page
from storage.db.records import DocumentRecord

MAX_CHARS = 32 * 1024 * 1024  # of all texts that are kept


@dataclass(frozen=True)
class ShownText:
    """A document's text and the parts in which it is loaded."""

    document: DocumentText
    parts: tuple[Part, ...]


class Texts:
    """The texts that were shown last, by the artifact that they come from."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[UUID, ShownText] = OrderedDict()

    def read(self, services: Services, tenant_id: UUID, document_id: UUID) -> ShownText:
        """Return the text of a tenant's document. Raises: as `read_text`."""
        services.storage.documents.get(tenant_id, document_id)  # whose it is, and that it is there
        artifact = services.storage.artifacts.current(document_id)
        if artifact is None:
            return _show(read_text(services, tenant_id, document_id))
        return self._find(artifact.id, lambda: read_text(services, tenant_id, document_id))

    async def extract(
        self, services: Services, owner: Owner, document: DocumentRecord
    ) -> ShownText | None:
        """Return the text of a document that could not be read; None if it has no readable text.

        Raises: Busy, ShuttingDown.
        """
        with self._lock:
            if (kept := self._kept.get(document.id)) is not None:
                return kept
        try:
            path = await run_in_threadpool(services.storage.blobs.path, document.blob_key)
            found = await services.upload_room.extract(path, document.kind, owner)
        except (InvalidInput, Permanent):
            return None
        pages = tuple(Page(page.number, page.start, page.end) for page in found.pages)
        structure = (
            structure_of(found.text, found.blocks) if found.blocks else plain_structure(found.text)
        )
        text = DocumentText(found.text, pages, structure, TEXT_FORMAT)
        return self._find(document.id, lambda: text)

    def _find(self, key: UUID, read: Callable[[], DocumentText]) -> ShownText:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        shown = _show(read())
        with self._lock:
            self._kept[key] = shown
            while sum(len(one.document.text) for one in self._kept.values()) > MAX_CHARS:
                self._kept.popitem(last=False)
        return shown


def _show(document: DocumentText) -> ShownText:
    return ShownText(document, divide_text(document))
