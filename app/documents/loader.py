"""Opening a ready document: only from an artifact that is whole and of this model."""

from contextlib import suppress
from uuid import UUID

import structlog

from app.services.document_cache import Resident
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
from engine.document.cache import DocumentCache
from engine.model.memory import out_of_memory_as_busy
from storage.db.records import ArtifactRecord, DocumentRecord

REBUILDING = "The stored cache of this document was damaged and is being rebuilt; ask again later."
TOO_LARGE = "This document's cache is larger than the memory that the model leaves on the GPU."
STALE = "This document was read by another model or settings; it is being read again, ask later."


def check_ready(document: DocumentRecord) -> None:
    """Let only documents pass that can be asked.

    Raises: DocumentNotReady, CacheRebuilding, or DocumentFailed with the reason of the failure.
    """
    if document.status == "failed":
        raise DocumentFailed(f"{document.error_code}: {document.error_message}")
    if document.status == "rebuilding":
        raise CacheRebuilding("The cache of this document is being rebuilt; ask again later.")
    if document.status != "ready":
        raise DocumentNotReady(
            f"The document is still {document.status}; follow its events and ask when it is ready."
        )


def open_document(services: Services, document: DocumentRecord) -> Resident[DocumentCache]:
    """Return the document's cache, from memory or from storage.

    Raises: CacheStale or CacheRebuilding, after having it read again; DocumentDeleted; GpuBusy, or
        DocumentTooLargeForGpu where waiting cannot help.
    """
    try:
        return _open(services, document)
    except DocumentNotFound as error:
        raise DocumentDeleted("The document was deleted while it was being asked about.") from error


def _open(services: Services, document: DocumentRecord) -> Resident[DocumentCache]:
    artifact = services.storage.artifacts.current(document.id)
    if artifact is None:
        _read_again(services, document.id)
        raise CacheRebuilding(REBUILDING)
    if artifact.fingerprint != services.fingerprint:
        _read_again(services, document.id)
        raise CacheStale(STALE)
    try:
        return _get(services, artifact)
    except CorruptArtifact as error:
        services.storage.artifacts.quarantine(artifact)  # queues the document, too
        services.storage.bell.ring()
        raise CacheRebuilding(REBUILDING) from error


def _get(services: Services, artifact: ArtifactRecord) -> Resident[DocumentCache]:
    """Get the document; where the GPU is full, once more after all others have left it."""
    with suppress(GpuBusy):
        return services.resident.get(artifact.id, lambda: _load(services, artifact))
    services.resident.clear()
    try:
        return services.resident.get(artifact.id, lambda: _load(services, artifact))
    except GpuBusy as error:
        room = services.engine.document_room_bytes()
        if room is not None and artifact.num_bytes > room:
            raise DocumentTooLargeForGpu(TOO_LARGE) from error
        raise


def _load(services: Services, artifact: ArtifactRecord) -> DocumentCache:
    stored = services.storage.artifacts.load(artifact)
    model = services.engine.model
    with out_of_memory_as_busy():
        return services.unpack(
            stored.manifest, stored.files, device=model.device, dtype=model.dtype
        )


def _read_again(services: Services, document_id: UUID) -> None:
    structlog.get_logger("lectern.library").warning("read again", document_id=str(document_id))
    services.storage.jobs.enqueue(document_id)
    services.storage.bell.ring()
