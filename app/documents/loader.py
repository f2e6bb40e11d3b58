"""Load the cache of a ready document, from memory or from an artifact of the current model."""

from contextlib import suppress
from uuid import UUID

import structlog

from app.services.document_cache import LoadedDocument
from app.services.services import Services
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
)
from common.status import DocumentStatus
from engine.document.cache import DocumentCache
from engine.model.memory import out_of_memory_as_busy
from storage.db.records import ArtifactRecord, DocumentRecord

DELETED = "The document was deleted while it was being asked about."
DAMAGED = "The stored cache of this document was damaged and is being rebuilt; ask again later."
REBUILDING = "The cache of this document is being rebuilt; ask again later."
TOO_LARGE = "This document's cache is larger than the memory that the model leaves on the GPU."
STALE = "This document was read by another model or settings; it is being read again, ask later."


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


def load_document(services: Services, document: DocumentRecord) -> LoadedDocument[DocumentCache]:
    """Return a document's cache, and load it if it is not in memory.

    Raises: CacheStale or CacheRebuilding if there is no artifact that can be used; the document is
        queued to be read again then. DocumentDeleted; GpuBusy if the GPU has no free memory now,
        DocumentTooLargeForGpu if it can never have enough.
    """
    try:
        artifact = _current_artifact(services, document)
    except DocumentNotFound as error:
        raise DocumentDeleted(DELETED) from error
    try:
        return _load_artifact(services, artifact)
    except CorruptArtifact as error:
        services.storage.artifacts.quarantine(artifact)  # this also queues the document
        services.storage.notifier.notify_workers()
        raise CacheRebuilding(DAMAGED) from error


def _current_artifact(services: Services, document: DocumentRecord) -> ArtifactRecord:
    artifact = services.storage.artifacts.current(document.id)
    if artifact is None:
        _read_again(services, document.id)
        raise CacheRebuilding(DAMAGED)
    if artifact.fingerprint != services.fingerprint:
        _read_again(services, document.id)
        raise CacheStale(STALE)
    return artifact


def _load_artifact(
    services: Services, artifact: ArtifactRecord
) -> LoadedDocument[DocumentCache]:  # fmt: skip
    """Load an artifact; if the GPU is full, remove all other documents and try again."""

    def read() -> DocumentCache:
        stored = services.storage.artifacts.load(artifact)
        model = services.engine.model
        with out_of_memory_as_busy():
            return services.unpack(
                stored.manifest, stored.files, device=model.device, dtype=model.dtype
            )

    with suppress(GpuBusy):
        return services.loaded_documents.get(artifact.id, read)
    services.loaded_documents.clear()
    try:
        return services.loaded_documents.get(artifact.id, read)
    except GpuBusy as error:
        room_bytes = services.engine.document_room_bytes()
        if room_bytes is not None and artifact.num_bytes > room_bytes:
            raise DocumentTooLargeForGpu(TOO_LARGE) from error
        raise


def _read_again(services: Services, document_id: UUID) -> None:
    log = structlog.get_logger("lectern.documents")
    log.warning("document queued to be read again", document_id=str(document_id))
    services.storage.jobs.enqueue(document_id)
    services.storage.notifier.notify_workers()
