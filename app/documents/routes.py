"""Documents: upload, list, look at, follow, delete."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from app.documents.events import follow
from app.documents.serialize import present, present_many
from app.documents.upload import Upload, receive_file
from app.http.auth import TenantDep
from app.http.sse import EventStream
from app.schema import DocumentBody, DocumentPage
from app.services.services import Services, ServicesDep
from common.errors import DocumentDeleted, DocumentNotFound, ShuttingDown
from ingest.inspect import inspect
from ingest.limits import Limits

router = APIRouter(prefix="/documents", tags=["documents"])
UPLOAD_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": {"type": "string", "format": "binary"}},
                }
            }
        },
    }
}
STREAMED: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}


def parse_id(document_id: str) -> UUID:
    """Read an id from a path; what is no id names no document.

    Raises: DocumentNotFound.
    """
    try:
        return UUID(document_id)
    except ValueError:
        raise DocumentNotFound("There is no such document.") from None


@router.post("", status_code=202, response_model=DocumentBody, openapi_extra=UPLOAD_BODY)
async def upload(request: Request, tenant: TenantDep, services: ServicesDep) -> JSONResponse:
    """Take a document in and queue it to be read; the same file again returns the same document."""
    if services.questions.draining:
        raise ShuttingDown("The server is stopping; upload again in a moment.")
    folder = services.data_dir / "incoming"
    async with receive_file(request, folder, services.config.max_upload_bytes) as file:
        body = await run_in_threadpool(_keep, services, tenant, file)
    return JSONResponse(body, 202, {"location": f"/documents/{body['id']}"})


@router.get("", response_model=DocumentPage)
async def list_documents(
    tenant: TenantDep,
    services: ServicesDep,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    after: Annotated[str | None, Query(max_length=64)] = None,
) -> dict[str, Any]:
    """List the caller's documents, newest first, a page at a time."""
    start = None if after is None else parse_id(after)
    return await run_in_threadpool(_page, services, tenant, limit, start)


@router.get("/{document_id}", response_model=DocumentBody)
async def get_document(
    document_id: str, tenant: TenantDep, services: ServicesDep
) -> dict[str, Any]:
    """Return one document and how far reading it has come."""
    return await run_in_threadpool(_one, services, tenant, parse_id(document_id))


@router.delete("/{document_id}", status_code=204)
async def delete_document(document_id: str, tenant: TenantDep, services: ServicesDep) -> Response:
    """Delete a document and all that was made of it; questions about it end."""
    await run_in_threadpool(_delete, services, tenant, parse_id(document_id))
    return Response(status_code=204)


@router.get("/{document_id}/events", status_code=200, response_class=Response, responses=STREAMED)
async def document_events(
    document_id: str, tenant: TenantDep, services: ServicesDep
) -> EventStream:
    """Follow the reading as server-sent events until the document is ready or has failed."""
    key = parse_id(document_id)
    await run_in_threadpool(services.storage.documents.get, tenant, key)
    services.watchers.check()
    return EventStream(follow(services, tenant, key))


def _keep(services: Services, tenant: UUID, file: Upload) -> dict[str, Any]:
    """Refuse at once what cannot be read, store the rest."""
    kind = inspect(file.path, file.filename, Limits())
    document, created = services.storage.documents.add(
        tenant,
        file.path,
        sha256=file.sha256,
        filename=file.filename,
        kind=kind.name,
        media_type=kind.media_type,
        num_bytes=file.num_bytes,
    )
    if created:
        services.storage.bell.ring()
    return present(services.storage, document)


def _page(services: Services, tenant: UUID, limit: int, after: UUID | None) -> dict[str, Any]:
    found = services.storage.documents.list(tenant, limit + 1, after)
    page = present_many(services.storage, found[:limit])
    return {
        "object": "list",
        "data": page,
        "has_more": len(found) > limit,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
    }


def _one(services: Services, tenant: UUID, document_id: UUID) -> dict[str, Any]:
    return present(services.storage, services.storage.documents.get(tenant, document_id))


def _delete(services: Services, tenant: UUID, document_id: UUID) -> None:
    artifact = services.storage.artifacts.current(document_id)
    services.storage.documents.delete(tenant, document_id)
    gone = DocumentDeleted("The document was deleted while it was being asked about.")
    services.questions.cancel_topic(document_id, gone)
    if artifact is not None:
        services.resident.drop(artifact.id)
