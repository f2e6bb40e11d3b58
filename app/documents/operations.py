"""What can be done to a stored document, by its tenant's routes and by the operator alike."""

from collections.abc import Sequence
from functools import partial
from uuid import UUID

from app.documents.schemas import DocumentBody, document_body
from app.services.document_loader import check_ready
from app.services.services import Services
from common.errors import DELETED, DocumentDeleted, DocumentPinned
from common.status import DocumentStatus
from engine.residents.entry import Reason
from storage.db.records import ApiKeyRecord, DocumentRecord


def read_document(services: Services, tenant_id: UUID, document_id: UUID) -> DocumentBody:
    """Return the body of a tenant's document. Raises: DocumentNotFound."""
    document = services.storage.documents.get(tenant_id, document_id)
    return document_bodies(services, [document])[0]


def document_bodies(
    services: Services, documents: Sequence[DocumentRecord]
) -> list[DocumentBody]:  # fmt: skip
    """Make the bodies of documents, with at most one query for jobs and one for artifacts."""
    in_work = [document.id for document in documents if document.status.is_in_work]
    ready = [document.id for document in documents if document.status is DocumentStatus.READY]
    jobs = services.storage.jobs.latest_of(in_work) if in_work else {}
    artifacts = services.storage.artifacts.current_of(ready) if ready else {}
    tiers, warnings = services.resident_documents.tiers(), services.memory_warnings
    return [
        document_body(
            document,
            jobs.get(document.id),
            artifacts.get(document.id),
            tiers.get(document.id),
            warnings.find(document, jobs.get(document.id)),
            warnings.bytes_of(document, jobs.get(document.id)),
        )
        for document in documents
    ]


def prefetch(services: Services, tenant_id: UUID, document_id: UUID) -> DocumentBody:
    """Load a ready document soon. Raises: DocumentNotFound, and what `check_ready` raises."""
    document = services.storage.documents.get(tenant_id, document_id)
    check_ready(document)
    services.prefetcher.start(document)
    return document_bodies(services, [document])[0]


def set_pinned(services: Services, tenant_id: UUID, document_id: UUID, is_pinned: bool) -> None:
    """Pin or unpin a document; a ready one that is pinned is loaded.

    Raises: PinsExceedMemory if it does not fit beside the documents that are pinned.
    """
    documents, residents = services.storage.documents, services.resident_documents
    document = documents.get(tenant_id, document_id)
    if is_pinned:
        services.memory_warnings.check_pin(document, documents.pinned())
    document = documents.set_pinned(tenant_id, document_id, is_pinned)
    residents.set_pinned(document_id, is_pinned)
    if is_pinned and document.status is DocumentStatus.READY and not document.is_stale:
        services.prefetcher.start(document)


def delete_with_answers(services: Services, tenant_id: UUID, document_id: UUID) -> None:
    """Delete a document, and stop the questions about it. Raises: DocumentNotFound."""
    services.storage.documents.delete(tenant_id, document_id)
    services.question_queue.cancel_document(document_id, DocumentDeleted(DELETED))
    services.resident_documents.drop_document(document_id)
    services.engine.turn_states.drop(document_id)


def evict(services: Services, tenant_id: UUID, document_id: UUID) -> DocumentBody:
    """Take a document out of memory, unless it is not stored yet and so nowhere else.

    Raises: DocumentNotFound, DocumentPinned.
    """
    document = services.storage.documents.get(tenant_id, document_id)
    if document.is_pinned:
        raise DocumentPinned("The document is pinned in memory; unpin it first.")
    if document.status is DocumentStatus.READY:
        services.resident_documents.drop_document(document_id, reason=Reason.ASKED)
    return read_document(services, tenant_id, document_id)


def retry(services: Services, caller: ApiKeyRecord, document_id: UUID) -> DocumentBody:
    """Queue a failed document to be read again. Raises: DocumentNotFound, QuotaExceeded."""
    storage = services.storage
    document = storage.documents.get(caller.tenant_id, document_id)
    if document.status is DocumentStatus.FAILED:
        admit = partial(storage.quotas.admit_reading, caller=caller)
        storage.jobs.enqueue(document_id, admit=admit)
        storage.notifier.notify_workers()
    return read_document(services, caller.tenant_id, document_id)


def cancel(services: Services, tenant_id: UUID, document_id: UUID) -> DocumentBody:
    """Stop the reading of a document, if it is being read. Raises: DocumentNotFound."""
    services.storage.documents.get(tenant_id, document_id)
    if services.storage.jobs.cancel(document_id):
        services.storage.notifier.notify_watchers(document_id)
    return read_document(services, tenant_id, document_id)
