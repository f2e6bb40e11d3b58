"""Routes of what can be done to a document: read it again, stop that, take it out of memory."""

from fastapi import APIRouter, Response
from fastapi.concurrency import run_in_threadpool

from app.documents.operations import cancel, evict, retry
from app.documents.schemas import DocumentBody, parse_document_id
from app.http.auth import CallerDep, ScopedRoute, TenantDep, needs
from app.services.services import ServicesDep
from common.scopes import Scope

router = APIRouter(prefix="/documents", tags=["documents"], route_class=ScopedRoute)
WRITES = [needs(Scope.WRITE)]


@router.post("/{document_id}/retry", status_code=202, dependencies=WRITES)
async def retry_document(
    document_id: str, response: Response, caller: CallerDep, services: ServicesDep
) -> DocumentBody:
    """Read a failed document again; any other one stays as it is."""
    key = parse_document_id(document_id)
    response.headers["location"] = f"/documents/{key}"
    return await run_in_threadpool(retry, services, caller, key)


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
