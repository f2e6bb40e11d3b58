"""Lease the cache of a ready document, and load it from an artifact of the current model."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

import structlog

from app.services.background_writes import BackgroundWrites
from common.errors import (
    DELETED,
    CacheRebuilding,
    CacheStale,
    CorruptArtifact,
    DocumentDeleted,
    DocumentFailed,
    DocumentNotFound,
    DocumentNotReady,
    NotReady,
)
from common.status import DocumentStatus
from engine.document.artifact import resident_bytes
from engine.document.cache import DocumentCache
from engine.model.loader import LoadedModel
from engine.model.memory import out_of_memory_as_busy
from engine.model.weights_check import WeightsCheck
from engine.residents.documents import Lease, ResidentDocuments
from engine.residents.file_loading import load_document
from engine.residents.staging import Staging
from storage.db.records import ArtifactRecord, DocumentRecord

if TYPE_CHECKING:  # for annotations alone
    from storage.storage import Storage

ASKED_PRIORITY = 1  # somebody waits for the answer
DAMAGED = "The stored cache of this document was damaged and is being rebuilt; ask again later."
REBUILDING = "The cache of this document is being rebuilt; ask again later."
STALE = (
    "This document has no cache of the present model and settings: it was read with others, or its "
    "cache was removed to make room. It is being read again; ask later."
)


def check_ready(document: DocumentRecord) -> None:
    """Return if the document can be asked about.

    Raises: DocumentNotReady, CacheRebuilding, or DocumentFailed with the reason of the failure.
    """
    match document.status:
        case DocumentStatus.READY | DocumentStatus.READABLE:
            return
        case DocumentStatus.FAILED:
            raise DocumentFailed(f"{document.error_code}: {document.error_message}")
        case DocumentStatus.REBUILDING:
            raise CacheRebuilding(REBUILDING)
    raise DocumentNotReady(
        f"The document is still {document.status}; follow its events and ask when it is ready."
    )


def ready_document(storage: "Storage", tenant_id: UUID, document_id: UUID) -> DocumentRecord:
    """Return a document of a tenant that can be asked about.

    Raises: DocumentNotFound; DocumentFailed; DocumentNotReady or CacheRebuilding, which say how far
        its reading is and when it will be ready.
    """
    document = storage.documents.get(tenant_id, document_id)
    try:
        check_ready(document)
    except NotReady as error:
        job = storage.jobs.latest_of([document_id]).get(document_id)
        if job is not None and job.tokens_total:
            done = f"{job.tokens_done:,} of {job.tokens_total:,} tokens"
            error.message = f"{error.message} So far: {done} ({job.phase})."
        error.retry_after_s = storage.reading_times.seconds_until_ready(document_id)
        raise
    return document


@dataclass(frozen=True)
class ArtifactSource:
    """A stored artifact as a source of the documents in memory; see `Source`.

    Attributes:
        storage: where it is stored.
        artifact: which.
        model: for its dtype.
        staging: the way to its device.
        num_bytes: that the document will take in the device's memory.
    """

    storage: "Storage"
    artifact: ArtifactRecord
    model: LoadedModel
    staging: Staging
    num_bytes: int

    def load(self) -> DocumentCache:
        """Read, verify and copy the artifact's files. Raises: as `Artifacts.load`; GpuBusy."""
        stored = self.storage.artifacts.load(self.artifact)
        with out_of_memory_as_busy():
            return load_document(
                stored.manifest,
                stored.open,
                dtype=self.model.dtype,
                staging=self.staging,
                read_ahead=stored.read_ahead,
            )


@dataclass(frozen=True)
class DocumentLoader:
    """Leases the caches of ready documents.

    Attributes:
        storage: where artifacts are stored, and documents are queued to be read again; as the
            model and the settings see it, so that only their artifacts are used.
        model: for its dtype.
        documents: the documents that are in memory.
        staging: the way to the model's device.
        background_writes: where it is noted that an artifact is used.
        weights_check: of whether the model still is what artifacts are named after.
    """

    storage: "Storage"
    model: LoadedModel
    documents: ResidentDocuments[DocumentCache]
    staging: Staging
    background_writes: BackgroundWrites
    weights_check: WeightsCheck | None = None

    def lease(self, document: DocumentRecord) -> Lease[DocumentCache]:
        """Use a document's cache, and load it if it is not on the device; it takes a thread.

        The document stays where it is until the lease is closed.

        Raises: CacheStale or CacheRebuilding if there is no artifact that can be used; the document
            is queued to be read again then. DocumentDeleted; what `ResidentDocuments.lease` raises.
        """
        if self.weights_check is not None:
            self.weights_check.check_answer()
        try:
            return self._lease(document)
        except DocumentNotFound as error:
            raise DocumentDeleted(DELETED) from error
        except NotReady as error:
            error.retry_after_s = self.storage.reading_times.seconds_until_ready(document.id)
            raise

    def _lease(self, document: DocumentRecord) -> Lease[DocumentCache]:
        lease = self._lease_resident(document)
        if lease is not None:
            return lease
        artifact = self._current_artifact(document)
        open_source = partial(self._open_source, artifact)
        try:
            return self.documents.lease(
                artifact.id, open_source, document=document.id, pinned=document.is_pinned
            )
        except CorruptArtifact as error:
            self.storage.artifacts.quarantine(artifact)  # this also queues the document
            self.storage.notifier.notify_workers()
            raise CacheRebuilding(DAMAGED) from error

    def _lease_resident(self, document: DocumentRecord) -> Lease[DocumentCache] | None:
        """Use the cache that the record names if it is on the device, without asking SQL again."""
        if (artifact := document.artifact) is not None:
            lease = self.documents.lease_resident(artifact.id, pinned=document.is_pinned)
            if lease is not None:
                self._note_use(artifact)
            return lease
        readable = self.storage.readable.find(document.id)
        return None if readable is None else self.documents.lease_resident(readable.artifact_id)

    def _note_use(self, artifact: ArtifactRecord) -> None:
        self.background_writes.add(partial(self.storage.artifacts.touch, artifact))

    def _open_source(self, artifact: ArtifactRecord) -> ArtifactSource:
        manifest = self.storage.artifacts.load(artifact).manifest
        num_bytes = resident_bytes(manifest, self.model.dtype)
        return ArtifactSource(self.storage, artifact, self.model, self.staging, num_bytes)

    def _current_artifact(self, document: DocumentRecord) -> ArtifactRecord:
        artifact = self.storage.artifacts.current(document.id)
        if artifact is None:
            self._read_again(document.id)
            raise CacheStale(STALE) if document.is_stale else CacheRebuilding(DAMAGED)
        self._note_use(artifact)
        return artifact

    def _read_again(self, document_id: UUID) -> None:
        log = structlog.get_logger("lectern.documents")
        log.warning("document queued to be read again", document_id=str(document_id))
        self.storage.jobs.enqueue(document_id, ASKED_PRIORITY)
        self.storage.notifier.notify_workers()
