"""Routes of documents: upload, list, get, follow, pin, prefetch and delete."""

import time
from collections.abc import Callable
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from app.documents.adding import add_document
from app.documents.events import EventSource, follow_document
from app.documents.names import fitting_documents
from app.documents.operations import (
    delete_with_answers,
    document_bodies,
    prefetch,
    read_document,
    set_pinned,
)
from app.documents.schemas import (
    DocumentBody,
    DocumentChange,
    DocumentPage,
    parse_document_id,
)
from app.documents.upload import Upload, display_name, receive_file
from app.documents.wishes import UploadWishes, metadata_of
from app.http.auth import CallerDep, ScopedRoute, TenantDep, needs
from app.http.errors import BodyRefused
from app.http.exchange import MULTIPART_BYTES, content_length, exchange_of
from app.http.schemas import MAX_TTL_S, MIN_TTL_S, MOST_PRIORITY
from app.http.sse import STREAM_RESPONSE, EventStream
from app.services.services import Services, ServicesDep
from app.services.upload_room import STOPPING
from common.errors import CallerGone, LecternError, ShuttingDown
from common.scopes import Scope
from common.spans import OK, Span, Value
from ingest.inspect import Kind
from storage.db.records import ApiKeyRecord

router = APIRouter(prefix="/documents", tags=["documents"], route_class=ScopedRoute)
READS, WRITES = [needs(Scope.READ)], [needs(Scope.WRITE)]
Priority = Annotated[int, Query(ge=-MOST_PRIORITY, le=MOST_PRIORITY)]
ExpiresAfter = Annotated[int | None, Query(ge=MIN_TTL_S, le=MAX_TTL_S)]
UPLOAD_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "file": {"type": "string", "format": "binary"},
                        "metadata": {"type": "string"},
                    },
                }
            }
        },
    }
}


@router.post("", status_code=202, openapi_extra=UPLOAD_BODY, dependencies=WRITES)
async def upload(
    request: Request,
    response: Response,
    caller: CallerDep,
    services: ServicesDep,
    expires_after_s: ExpiresAfter = None,
    priority: Priority = 0,
    replaces: Annotated[str | None, Query(max_length=1000)] = None,
) -> DocumentBody:
    """Store a file and queue it to be read; the same file again returns the same document.

    With `replaces`, an id or a name, it is a new version of that document: it has its name, and
    takes its place when it is ready.
    """

    def wishes(file: Upload) -> UploadWishes:
        return UploadWishes(expires_after_s, metadata_of(file), priority, replaces)

    body = await receive_document(request, caller, services, wishes)
    response.headers["location"] = f"/documents/{body.id}"
    return body


async def receive_document(
    request: Request,
    caller: ApiKeyRecord,
    services: Services,
    wishes_of: Callable[[Upload], UploadWishes],
) -> DocumentBody:
    """Receive the file of a multipart request and store it as a document.

    Args:
        wishes_of: returns what the caller wants of the document. It may raise what is wrong about
            the form.
    Raises: what `receive_file` and `find_document` raise; ShuttingDown, TooManyRequests,
        QuotaExceeded, and what the inspection of the file finds.
    """
    began_s, started_s, told = time.monotonic(), time.time(), dict[str, Value]()
    code = LecternError.code
    try:
        body = await _receive_document(request, caller, services, wishes_of)
        told = {"document_id": body.id, "num_bytes": body.num_bytes, "media_type": body.media_type}
        code = OK
        return body
    except LecternError as error:
        code = error.code
        raise
    except BodyRefused as error:
        code = error.failure.code
        raise
    except ClientDisconnect:
        code = CallerGone.code
        raise
    finally:
        exchange = exchange_of(request)
        told["request_id"] = exchange.request_id
        spent_s, parent = time.monotonic() - began_s, exchange.trace_parent
        services.on_span(Span("upload", started_s, spent_s, told, code=code, parent=parent))


async def _receive_document(
    request: Request,
    caller: ApiKeyRecord,
    services: Services,
    wishes_of: Callable[[Upload], UploadWishes],
) -> DocumentBody:
    if services.question_queue.is_draining:
        raise ShuttingDown(STOPPING)
    room = services.upload_room
    exchange_of(request).hold(room.places, caller.owner)
    file_bytes = max(1, content_length(request.scope) - MULTIPART_BYTES)  # at least
    await run_in_threadpool(services.storage.quotas.check_upload, caller, file_bytes)
    folder = services.data_dir / "incoming"
    async with receive_file(request, folder, services.config.max_upload_bytes, room.run) as file:
        kind = await room.inspect(file.path, file.filename, caller.owner)
        body: DocumentBody = await room.run(
            _add_document, services, caller, file, kind, wishes_of(file)
        )
    return body


@router.get("", dependencies=READS)
async def list_documents(
    tenant_id: TenantDep,
    services: ServicesDep,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    after: Annotated[str | None, Query(max_length=64)] = None,
    name: Annotated[str | None, Query(max_length=1000)] = None,
) -> DocumentPage:
    """List the caller's documents in pages, newest first; with `name`, what that stands for.

    A name stands for the documents of that file name, of versions the one that answers; if there is
    none, for that of this id, or those whose id begins so.
    """
    if name is not None:
        return await run_in_threadpool(_get_named, services, tenant_id, name, limit)
    after_id = None if after is None else parse_document_id(after)
    return await run_in_threadpool(_get_page, services, tenant_id, limit, after_id)


@router.get("/{document_id}", dependencies=READS)
async def get_document(
    document_id: str, tenant_id: TenantDep, services: ServicesDep
) -> DocumentBody:
    """Return one document, with its progress while it is being read."""
    key = parse_document_id(document_id)
    return await run_in_threadpool(read_document, services, tenant_id, key)


@router.patch("/{document_id}", dependencies=WRITES)
async def change_document(
    document_id: str, change: DocumentChange, tenant_id: TenantDep, services: ServicesDep
) -> DocumentBody:
    """Change a document: its name, what is noted on it, when it is read and when it is deleted.

    The cache of a pinned document never leaves memory.
    """
    key = parse_document_id(document_id)
    return await run_in_threadpool(_change_document, services, tenant_id, key, change)


@router.post("/{document_id}/prefetch", status_code=202, dependencies=READS)
async def prefetch_document(
    document_id: str, tenant_id: TenantDep, services: ServicesDep
) -> DocumentBody:
    """Load a ready document into memory soon, so that its first question need not wait for it."""
    key = parse_document_id(document_id)
    return await run_in_threadpool(prefetch, services, tenant_id, key)


@router.delete("/{document_id}", status_code=204, dependencies=WRITES)
async def delete_document(
    document_id: str, tenant_id: TenantDep, services: ServicesDep
) -> Response:  # fmt: skip
    """Delete a document and everything that was made of it; questions about it are stopped."""
    key = parse_document_id(document_id)
    await run_in_threadpool(delete_with_answers, services, tenant_id, key)
    return Response(status_code=204)


@router.get(
    "/{document_id}/events",
    response_class=Response,
    responses=dict(STREAM_RESPONSE),
    dependencies=READS,
)
async def document_events(
    document_id: str, request: Request, caller: CallerDep, services: ServicesDep
) -> EventStream:
    """Send the progress as server-sent events until the document is ready or has failed."""
    key = parse_document_id(document_id)
    await run_in_threadpool(services.storage.documents.get, caller.tenant_id, key)
    exchange_of(request).hold(services.event_streams, caller.owner)
    source = EventSource(services.storage, services.watchers, services.question_queue)
    return EventStream(follow_document(source, caller.tenant_id, key))


def _add_document(
    services: Services, caller: ApiKeyRecord, file: Upload, kind: Kind, wishes: UploadWishes
) -> DocumentBody:
    return document_bodies(services, [add_document(services, caller, file, kind, wishes)])[0]


def _get_page(
    services: Services, tenant_id: UUID, limit: int, after_id: UUID | None
) -> DocumentPage:
    documents = services.storage.documents.list(tenant_id, limit + 1, after_id)
    bodies = document_bodies(services, documents[:limit])
    return DocumentPage(
        object="list",
        data=bodies,
        has_more=len(documents) > limit,
        first_id=bodies[0].id if bodies else None,
        last_id=bodies[-1].id if bodies else None,
    )


def _get_named(services: Services, tenant_id: UUID, name: str, limit: int) -> DocumentPage:
    found = fitting_documents(services.storage.documents, tenant_id, name, limit + 1)
    bodies = document_bodies(services, found[:limit])
    return DocumentPage(
        object="list",
        data=bodies,
        has_more=len(found) > limit,
        first_id=bodies[0].id if bodies else None,
        last_id=bodies[-1].id if bodies else None,
    )


def _change_document(
    services: Services, tenant_id: UUID, document_id: UUID, change: DocumentChange
) -> DocumentBody:
    documents = services.storage.documents
    documents.get(tenant_id, document_id)
    if change.pinned is not None:
        set_pinned(services, tenant_id, document_id, change.pinned)
    if "expires_after_s" in change.model_fields_set:
        documents.set_expiry(tenant_id, document_id, change.expires_after_s)
    if "metadata" in change.model_fields_set:
        documents.set_metadata(tenant_id, document_id, change.metadata)
    if change.priority is not None:
        documents.set_priority(tenant_id, document_id, change.priority)
    if change.filename is not None:
        documents.rename(tenant_id, document_id, display_name(change.filename))
    return read_document(services, tenant_id, document_id)
