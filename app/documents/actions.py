"""Routes of what can be done to a document: read it again, stop that, take it out of memory."""

from functools import partial
from uuid import UUID

from fastapi import APIRouter, Response
from fastapi.concurrency import run_in_threadpool

from app.documents.routes import read_document
from app.documents.schemas import DocumentBody, parse_document_id
from app.http.auth import CallerDep, ScopedRoute, TenantDep, needs
from app.services.services import Services, ServicesDep
from common.errors import DocumentPinned
from common.scopes import Scope
from common.status import DocumentStatus
from engine.residents.entry import Reason
from storage.db.records import ApiKeyRecord

router = APIRouter(prefix="/documents", tags=["documents"], route_class=ScopedRoute)
WRITES = [needs(Scope.WRITE)]


@router.post("/{document_id}/retry", status_code=202, dependencies=WRITES)
async def retry_document(
    document_id: str, response: Response, caller: CallerDep, services: ServicesDep
) -> DocumentBody:
    """Read a failed document again; any other one stays as it is."""
    key = parse_document_id(document_id)
    response.headers["location"] = f"/documents/{key}"
    return await run_in_threadpool(_retry, services, caller, key)


@router.post("/{document_id}/cancel", status_code=202, dependencies=WRITES)
async def cancel_document(
    document_id: str, response: Response, tenant_id: TenantDep, services: ServicesDep
) -> DocumentBody:
    """Stop the reading of a document, which is failed then; a ready one stays as it is."""
    key = parse_document_id(document_id)
    response.headers["location"] = f"/documents/{key}"
    return await run_in_threadpool(cancel, services, tenant_id, key)


@router.post("/{document_id}/evict", status_code=202, dependencies=WRITES)
async def evict_document(
    document_id: str, tenant_id: TenantDep, services: ServicesDep
) -> DocumentBody:
    """Take a ready document out of memory; its cache stays on the disk, for its next question.

    Questions that are being answered from it keep it until they end.
    """
    key = parse_document_id(document_id)
    return await run_in_threadpool(evict, services, tenant_id, key)


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


def _retry(services: Services, caller: ApiKeyRecord, document_id: UUID) -> DocumentBody:
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
