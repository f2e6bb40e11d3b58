"""Routes of what a document consists of: the file as it was uploaded, and the text read from it."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Send
from starlette.types import Scope as RequestScope

from app.documents.schemas import BlockBody, TextBody, TextPageBody, parse_document_id
from app.http.auth import ScopedRoute, TenantDep, needs
from app.http.errors import Failure, FailureResponse
from app.services.document_loader import check_ready
from app.services.services import Services, ServicesDep
from common.errors import CacheStale, DocumentNotFound, InvalidInput, OriginalMissing
from common.scopes import Scope
from engine.document.artifact import DOCUMENT_FILE, DocumentText, unpack_text

router = APIRouter(prefix="/documents", tags=["documents"], route_class=ScopedRoute)
READS = [needs(Scope.READ)]
MOST = 2**53  # that JSON holds exactly; no text has as many characters
Offset = Annotated[int | None, Query(ge=0, le=MOST)]
NO_RANGE = Failure(
    416, "range_not_satisfiable", "The file has no such range of bytes.", param="range"
)


class OriginalFile(FileResponse):
    """A file; a range that it does not have is answered with the body that all errors share."""

    async def __call__(self, scope: RequestScope, receive: Receive, send: Send) -> None:
        """Send the file, or the range of it that the request asks for."""
        is_refused = False

        async def send_or_explain(message: Message) -> None:
            nonlocal is_refused
            if message["type"] == "http.response.start" and message["status"] >= 400:
                is_refused = True
                failure = FailureResponse(NO_RANGE)
                size = Headers(raw=message["headers"]).get("content-range")
                if size is not None:
                    failure.headers["content-range"] = size
                await failure(scope, receive, send)
            elif not is_refused:
                await send(message)

        await super().__call__(scope, receive, send_or_explain)


@router.get("/{document_id}/content", response_class=FileResponse, dependencies=READS)
async def document_content(
    document_id: str, tenant_id: TenantDep, services: ServicesDep
) -> FileResponse:
    """Return the file as it was uploaded; byte ranges can be asked for."""
    key = parse_document_id(document_id)
    return await run_in_threadpool(original_file, services, tenant_id, key)


@router.get("/{document_id}/text", dependencies=READS)
async def document_text(
    document_id: str,
    tenant_id: TenantDep,
    services: ServicesDep,
    start: Offset = None,
    end: Offset = None,
    page: Annotated[int | None, Query(ge=1, le=MOST)] = None,
) -> TextBody:
    """Return the text that was read from a document: all, some characters, or a page.

    It is what the spans of evidence point into; spans are half-open and count characters.
    """
    key = parse_document_id(document_id)
    if page is not None and (start is not None or end is not None):
        raise InvalidInput("page: ask either for a page or for a span.", param="page")
    text = await run_in_threadpool(read_text, services, tenant_id, key)
    if page is not None:
        start, end = _span_of_page(text, page)
    begin, stop = start or 0, len(text.text) if end is None else min(end, len(text.text))
    if begin > stop:
        raise InvalidInput("start: the span begins behind its end.", param="start")
    return TextBody(
        document_id=str(key),
        text=text.text[begin:stop],
        start_char=begin,
        end_char=stop,
        num_chars=len(text.text),
        pages=[
            TextPageBody(number=one.number, start_char=one.start, end_char=one.end)
            for one in text.pages
            if one.start <= stop and one.end >= begin
        ],
        blocks=[
            BlockBody(kind=one.kind, level=one.level, start_char=one.start, end_char=one.end)
            for one in text.structure.blocks
            if one.start < stop and one.end > begin
        ],
        text_format=text.format,
    )


def original_file(services: Services, tenant_id: UUID, document_id: UUID) -> FileResponse:
    """Return the response that sends an original. Raises: DocumentNotFound."""
    document = services.storage.documents.get(tenant_id, document_id)
    try:
        path = services.storage.blobs.path(document.blob_key)
    except OriginalMissing as error:
        raise DocumentNotFound("The original file is no longer stored; upload it again.") from error
    response = OriginalFile(path, media_type=document.media_type, filename=document.filename)
    # What somebody uploaded must not act as a page of this server, if a browser shows it.
    response.headers["content-security-policy"] = "default-src 'none'; sandbox"
    return response


def read_text(services: Services, tenant_id: UUID, document_id: UUID) -> DocumentText:
    """Read a ready document's text from its cache, of which only that file is read.

    Raises: DocumentNotFound, DocumentNotReady, DocumentFailed, CacheStale; CorruptArtifact.
    """
    document = services.storage.documents.get(tenant_id, document_id)
    check_ready(document)
    artifact = services.storage.artifacts.current(document_id)
    if artifact is None:
        raise CacheStale("The document has to be read again first; ask a question about it.")
    stored = services.storage.artifacts.load(artifact, (DOCUMENT_FILE,))
    return unpack_text(stored.manifest, stored.files)


def _span_of_page(text: DocumentText, number: int) -> tuple[int, int]:
    for page in text.pages:
        if page.number == number:
            return page.start, page.end
    if not text.pages:
        raise InvalidInput("page: a document of this kind has no pages.", param="page")
    raise InvalidInput(f"page: the document has {len(text.pages)} pages.", param="page")
