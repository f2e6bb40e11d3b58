"""Routes of files: documents in the shape that OpenAI's clients know."""

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse

from app.documents.content import original_file
from app.documents.operations import delete_with_answers, document_bodies, read_document
from app.documents.routes import UPLOAD_BODY, receive_document
from app.documents.schemas import DocumentBody, parse_document_id
from app.documents.upload import Upload
from app.documents.wishes import UploadWishes, metadata_of
from app.http.auth import CallerDep, ScopedRoute, TenantDep, needs
from app.http.schemas import MAX_TTL_S, MIN_TTL_S
from app.openai.schemas import FileBody, FileDeleted, FilePage
from app.services.services import Services, ServicesDep
from common.errors import InvalidInput
from common.scopes import Scope
from common.status import DocumentStatus

router = APIRouter(prefix="/v1/files", tags=["openai"], route_class=ScopedRoute)
READS, WRITES = [needs(Scope.READ)], [needs(Scope.WRITE)]
PURPOSE = "user_data"
ANCHOR, SECONDS = "expires_after[anchor]", "expires_after[seconds]"
MOST_FILES = 1000  # of a page, however many are asked for


@router.post("", openapi_extra=UPLOAD_BODY, dependencies=WRITES)
async def create_file(request: Request, caller: CallerDep, services: ServicesDep) -> FileBody:
    """Store a file and queue it to be read; the same file again returns the same document."""
    return file_body(await receive_document(request, caller, services, _wishes_of))


@router.get("", dependencies=READS)
async def list_files(
    tenant_id: TenantDep,
    services: ServicesDep,
    limit: Annotated[int, Query(ge=1, le=10_000)] = MOST_FILES,
    after: Annotated[str | None, Query(max_length=64)] = None,
    order: Literal["asc", "desc"] = "desc",
    purpose: Annotated[str | None, Query(max_length=64)] = None,
) -> FilePage:
    """List the caller's files in pages; all have the same purpose."""
    after_id = None if after is None else parse_document_id(after)
    if purpose not in (None, PURPOSE):
        return FilePage(data=[], first_id=None, last_id=None, has_more=False)
    most = min(limit, MOST_FILES)
    return await run_in_threadpool(
        _page, services, tenant_id, most, after_id, oldest_first=order == "asc"
    )


@router.get("/{file_id}", dependencies=READS)
async def get_file(file_id: str, tenant_id: TenantDep, services: ServicesDep) -> FileBody:
    """Return one file, with its progress while it is being read."""
    key = parse_document_id(file_id)
    return file_body(await run_in_threadpool(read_document, services, tenant_id, key))


@router.get("/{file_id}/content", response_class=FileResponse, dependencies=READS)
async def get_file_content(
    file_id: str, tenant_id: TenantDep, services: ServicesDep
) -> FileResponse:
    """Return the bytes of a file as it was uploaded."""
    key = parse_document_id(file_id)
    return await run_in_threadpool(original_file, services, tenant_id, key)


@router.delete("/{file_id}", dependencies=WRITES)
async def delete_file(file_id: str, tenant_id: TenantDep, services: ServicesDep) -> FileDeleted:
    """Delete a file and everything that was made of it; questions about it are stopped."""
    key = parse_document_id(file_id)
    await run_in_threadpool(delete_with_answers, services, tenant_id, key)
    return FileDeleted(id=str(key))


def file_body(document: DocumentBody) -> FileBody:
    """Return a document as a file."""
    failure, progress = document.error, document.progress
    precompute: dict[str, Any] = {"status": document.status}
    if progress is not None:
        precompute |= progress.model_dump()
    return FileBody(
        id=document.id,
        bytes=document.num_bytes,
        created_at=document.created_at,
        expires_at=document.expires_at,
        filename=document.filename,
        purpose=PURPOSE,
        status=_status(document.status),
        status_details=None if failure is None else f"{failure.code}: {failure.message}",
        precompute=precompute,
        metadata=document.metadata,
    )


def _status(status: DocumentStatus) -> Literal["uploaded", "processed", "error"]:
    if status is DocumentStatus.FAILED:
        return "error"
    is_unread = status.is_in_work and status is not DocumentStatus.READABLE
    return "uploaded" if is_unread else "processed"


def _page(
    services: Services, tenant_id: UUID, limit: int, after_id: UUID | None, *, oldest_first: bool
) -> FilePage:
    documents = services.storage.documents.list(
        tenant_id, limit + 1, after_id, oldest_first=oldest_first
    )
    files = [file_body(one) for one in document_bodies(services, documents[:limit])]
    return FilePage(
        data=files,
        first_id=files[0].id if files else None,
        last_id=files[-1].id if files else None,
        has_more=len(documents) > limit,
    )


def _wishes_of(file: Upload) -> UploadWishes:
    """Return what a form says beside its file. Raises: InvalidInput."""
    return UploadWishes(_ttl_of(file), metadata_of(file), replaces=file.fields.get("replaces"))


def _ttl_of(file: Upload) -> int | None:
    """Return the seconds after which a file is deleted, as its form says; None if it does not.

    Raises: InvalidInput.
    """
    seconds = file.fields.get(SECONDS)
    if seconds is None:
        return None
    if file.fields.get(ANCHOR, "created_at") != "created_at":
        raise InvalidInput("expires_after: the anchor is `created_at`.", param="expires_after")
    if not seconds.isdecimal() or not MIN_TTL_S <= int(seconds) <= MAX_TTL_S:
        raise InvalidInput(
            f"expires_after: seconds from {MIN_TTL_S} to {MAX_TTL_S}.", param="expires_after"
        )
    return int(seconds)
