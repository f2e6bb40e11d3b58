"""Load the cache of a ready document, from memory or from an artifact of the current model."""

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import structlog

from app.services.background_writes import BackgroundWrites
from app.services.document_cache import LoadedDocument, LoadedDocuments
from common.errors import (
    CacheRebuilding,
    CacheStale,
    CorruptArtifact,
    DocumentDeleted,
    DocumentFailed,
    DocumentNotFound,
    DocumentNotReady,
    DocumentTooLargeForGpu,
    GpuBusy,
    NotReady,
)
from common.status import DocumentStatus
from engine.document.artifact import unpack
from engine.document.cache import DocumentCache
from engine.model.loader import LoadedModel
from engine.model.memory import document_room_bytes, out_of_memory_as_busy
from storage.db.records import ArtifactRecord, DocumentRecord
from storage.storage import Storage

ASKED_PRIORITY = 1  # somebody waits for the answer
DELETED = "The document was deleted while it was being asked about."
DAMAGED = "The stored cache of this document was damaged and is being rebuilt; ask again later."
REBUILDING = "The cache of this document is being rebuilt; ask again later."
TOO_LARGE = "This document's cache is larger than the memory that the model leaves on the GPU."
STALE = (
    "This document has no cache of the present model and settings: it was read with others, or its "
    "cache was removed to make room. It is being read again; ask later."
)


def check_ready(document: DocumentRecord) -> None:
    """Return if the document can be asked about.

    Raises: DocumentNotReady, CacheRebuilding, or DocumentFailed with the reason of the failure.
    """
    match document.status:
        case DocumentStatus.READY:
            return
        case DocumentStatus.FAILED:
            raise DocumentFailed(f"{document.error_code}: {document.error_message}")
        case DocumentStatus.REBUILDING:
            raise CacheRebuilding(REBUILDING)
    raise DocumentNotReady(
        f"The document is still {document.status}; follow its events and ask when it is ready."
    )


@dataclass(frozen=True)
class DocumentLoader:
    """Loads the caches of ready documents.

    Attributes:
        storage: where artifacts are stored, and documents are queued to be read again; as the
            model and the settings see it, so that only their artifacts are used.
        model: for its device and its dtype.
        loaded_documents: the documents that are in memory.
        background_writes: where it is noted that an artifact is used.
    """

    storage: Storage
    model: LoadedModel
    loaded_documents: LoadedDocuments[DocumentCache]
    background_writes: BackgroundWrites

    def load(self, document: DocumentRecord) -> LoadedDocument[DocumentCache]:
        """Return a document's cache, and load it if it is not in memory.

        Raises: CacheStale or CacheRebuilding if there is no artifact that can be used; the document
            is queued to be read again then. DocumentDeleted; GpuBusy if the GPU has no free memory
            now, DocumentTooLargeForGpu if it can never have enough.
        """
        try:
            return self._load(document)
        except DocumentNotFound as error:
            raise DocumentDeleted(DELETED) from error
        except NotReady as error:
            error.retry_after_s = self.storage.reading_times.seconds_until_ready(document.id)
            raise

    def _load(self, document: DocumentRecord) -> LoadedDocument[DocumentCache]:
        artifact = self._current_artifact(document)
        try:
            return self._load_artifact(artifact)
        except CorruptArtifact as error:
            self.storage.artifacts.quarantine(artifact)  # this also queues the document
            self.storage.notifier.notify_workers()
            raise CacheRebuilding(DAMAGED) from error

    def _current_artifact(self, document: DocumentRecord) -> ArtifactRecord:
        artifact = self.storage.artifacts.current(document.id)
        if artifact is None:
            self._read_again(document.id)
            raise CacheStale(STALE) if document.is_stale else CacheRebuilding(DAMAGED)
        self.background_writes.add(partial(self.storage.artifacts.touch, artifact))
        return artifact

    def _load_artifact(self, artifact: ArtifactRecord) -> LoadedDocument[DocumentCache]:
        """Load an artifact; if the GPU is full, remove all other documents and try again."""

        def read() -> DocumentCache:
            stored = self.storage.artifacts.load(artifact)
            device, dtype = self.model.device, self.model.dtype
            with out_of_memory_as_busy():
                return unpack(stored.manifest, stored.files, device=device, dtype=dtype)

        with suppress(GpuBusy):
            return self.loaded_documents.get(artifact.id, read)
        self.loaded_documents.clear()
        try:
            return self.loaded_documents.get(artifact.id, read)
        except GpuBusy as error:
            room_bytes = document_room_bytes(self.model.model)
            if room_bytes is not None and artifact.num_bytes > room_bytes:
                raise DocumentTooLargeForGpu(TOO_LARGE) from error
            raise

    def _read_again(self, document_id: UUID) -> None:
        log = structlog.get_logger("lectern.documents")
        log.warning("document queued to be read again", document_id=str(document_id))
        self.storage.jobs.enqueue(document_id, ASKED_PRIORITY)
        self.storage.notifier.notify_workers()
