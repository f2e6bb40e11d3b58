"""Routes of what can be done to the reading of a document: to try it again, and to stop it."""

from uuid import UUID

from fastapi import APIRouter, Response
from fastapi.concurrency import run_in_threadpool

from app.documents.routes import read_document
from app.documents.schemas import DocumentBody, parse_document_id
from app.http.auth import ScopedRoute, TenantDep, needs
from app.services.services import Services, ServicesDep
from common.scopes import Scope
from common.status import DocumentStatus

router = APIRouter(prefix="/documents", tags=["documents"], route_class=ScopedRoute)
WRITES = [needs(Scope.WRITE)]


@router.post("/{document_id}/retry", status_code=202, dependencies=WRITES)
async def retry_document(
    document_id: str, response: Response, tenant_id: TenantDep, services: ServicesDep
) -> DocumentBody:
    """Read a failed document again; any other one stays as it is."""
    key = parse_document_id(document_id)
    response.headers["location"] = f"/documents/{key}"
    return await run_in_threadpool(retry, services, tenant_id, key)


@router.post("/{document_id}/cancel", status_code=202, dependencies=WRITES)
async def cancel_document(
    document_id: str, response: Response, tenant_id: TenantDep, services: ServicesDep
) -> DocumentBody:
    """Stop the reading of a document, which is failed then; a ready one stays as it is."""
    key = parse_document_id(document_id)
    response.headers["location"] = f"/documents/{key}"
    return await run_in_threadpool(cancel, services, tenant_id, key)


def retry(services: Services, tenant_id: UUID, document_id: UUID) -> DocumentBody:
    document = services.storage.documents.get(tenant_id, document_id)
    if document.status is DocumentStatus.FAILED:
        services.storage.jobs.enqueue(document_id)
        services.storage.notifier.notify_workers()
    return read_document(services, tenant_id, document_id)


def cancel(services: Services, tenant_id: UUID, document_id: UUID) -> DocumentBody:
    services.storage.documents.get(tenant_id, document_id)
    if services.storage.jobs.cancel(document_id):
        services.storage.notifier.notify_watchers(document_id)
    return read_document(services, tenant_id, document_id)
