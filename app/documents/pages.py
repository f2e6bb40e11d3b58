"""Routes of a PDF's pages: where their words are, and their pictures."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query, Response
from fastapi.concurrency import run_in_threadpool

from app.documents.content import MOST, Offset
from app.documents.schemas import PageWordsBody, WordBody, parse_document_id
from app.http.auth import CallerDep, ScopedRoute, TenantDep, needs
from app.services.document_loader import check_ready
from app.services.services import Services, ServicesDep
from common.errors import CacheStale, DocumentNotFound, InvalidInput, OriginalMissing
from common.scopes import Scope
from ingest.page_words import UNIT, WORDS_FILE, PageWords, unpack_words
from storage.db.records import DocumentRecord

router = APIRouter(prefix="/documents", tags=["documents"], route_class=ScopedRoute)
READS = [needs(Scope.READ)]
PDF = "pdf"
NO_PAGES = "page: only PDF documents have pages that can be shown."
NO_WORDS = (
    "page: the document was read by an earlier version, which kept no boxes of words. Delete it "
    "and upload it again."
)
Number = Annotated[int, Path(ge=1, le=MOST)]
Width = Annotated[int, Query(ge=16, le=4096)]


@router.get("/{document_id}/pages/{page}/words", dependencies=READS)
async def page_words(
    document_id: str,
    page: Number,
    tenant_id: TenantDep,
    services: ServicesDep,
    start: Offset = None,
    end: Offset = None,
) -> PageWordsBody:
    """Return where the words of a PDF's page are, all or those of a span of characters.

    Boxes are in points, from the upper left corner of the page as it is shown.
    """
    key = parse_document_id(document_id)
    words = await run_in_threadpool(_find_page, services, tenant_id, key, page)
    first, last = start or 0, MOST if end is None else end
    return PageWordsBody(
        document_id=str(key),
        page=words.number,
        width=words.width / UNIT,
        height=words.height / UNIT,
        words=[
            WordBody(
                start_char=word.start,
                end_char=word.end,
                left=word.left / UNIT,
                top=word.top / UNIT,
                right=word.right / UNIT,
                bottom=word.bottom / UNIT,
            )
            for word in words.words
            if word.start < last and word.end > first
        ],
    )


@router.get(
    "/{document_id}/pages/{page}/image",
    response_class=Response,
    responses={200: {"content": {"image/png": {}}}},
    dependencies=READS,
)
async def page_image(
    document_id: str,
    page: Number,
    caller: CallerDep,
    services: ServicesDep,
    width: Width = 1000,
) -> Response:
    """Return a picture of a PDF's page, `width` pixels wide.

    It is drawn in a process that is limited like the extraction of text.
    """
    key = parse_document_id(document_id)
    document = await run_in_threadpool(services.storage.documents.get, caller.tenant_id, key)
    if document.kind != PDF:
        raise InvalidInput(NO_PAGES, param="page")
    try:
        path = await run_in_threadpool(services.storage.blobs.path, document.blob_key)
    except OriginalMissing as error:
        raise DocumentNotFound("The original file is no longer stored; upload it again.") from error
    picture = await services.upload_room.draw(path, page, width, caller.owner)
    headers = {"cache-control": "private, max-age=3600"}
    return Response(picture, media_type="image/png", headers=headers)


def _find_page(services: Services, tenant_id: UUID, document_id: UUID, number: int) -> PageWords:
    """Find a page's words among those that are stored beside the text.

    Raises: DocumentNotFound, DocumentNotReady, DocumentFailed, CacheStale; CorruptArtifact;
        InvalidInput for a document without pages or boxes, or without this page.
    """
    document = services.storage.documents.get(tenant_id, document_id)
    if document.kind != PDF:
        raise InvalidInput(NO_PAGES, param="page")
    pages = _read_words(services, document)
    for page in pages:
        if page.number == number:
            return page
    raise InvalidInput(f"page: the document has {len(pages)} pages.", param="page")


def _read_words(services: Services, document: DocumentRecord) -> tuple[PageWords, ...]:
    check_ready(document)
    artifact = services.storage.artifacts.current(document.id)
    if artifact is None:
        raise CacheStale("The document has to be read again first; ask a question about it.")
    stored = services.storage.artifacts.load(artifact, (WORDS_FILE,))
    for _, data in stored.files:
        return unpack_words(data)
    raise InvalidInput(NO_WORDS, param="page")
