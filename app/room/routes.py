"""Routes of the reading room: the login, the list of documents, and a document's page."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, FastAPI, Form, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException

from app.documents.schemas import parse_document_id
from app.http import cookies
from app.http.auth import CallerDep, TenantDep
from app.http.cookies import ROOM
from app.http.errors import explain
from app.room import api_page
from app.room.guard import RoomRoute, csrf_token, safe_path
from app.room.history import History, read_history
from app.room.listing import STATES, ShownDocument, list_documents, show_documents
from app.room.text_parts import blocks_of
from app.room.texts import ShownText, Texts
from app.services.services import Services, ServicesDep
from app.web.pages import HEADERS, render
from common.errors import InvalidInput, LecternError, NotReady
from common.scopes import Scope
from common.status import DocumentStatus
from engine.document.cache import Page
from storage.browser_sessions import MAX_AGE
from storage.db.records import ApiKeyRecord, DocumentRecord

public = APIRouter(include_in_schema=False)
private = APIRouter(include_in_schema=False, route_class=RoomRoute)
MAX_KEY_CHARS = 200
MAX_SEARCH_CHARS = 200
MAX_PARTS = 16  # in one response
PDF = "application/pdf"
NO_PART = "The document has no such part."


async def texts_of(request: Request) -> Texts:
    """Return the texts that pages of this app have shown."""
    texts: Texts = request.app.state.texts
    return texts


TextsDep = Annotated[Texts, Depends(texts_of)]


@public.get("/login")
async def login_page(next: str = "/") -> Response:
    """Show the login form."""
    return render("room/login.html", problem=None, next=safe_path(next))


@public.post("/login")
async def login(
    request: Request,
    services: ServicesDep,
    key: Annotated[str, Form(max_length=MAX_KEY_CHARS)] = "",
    next: Annotated[str, Form(max_length=MAX_KEY_CHARS)] = "/",
) -> Response:
    """Open a session of an API key."""
    if not cookies.same_origin(request):
        raise HTTPException(403)
    address = safe_path(next)
    try:
        token = await run_in_threadpool(_open_session, services, key.strip())
    except LecternError as error:
        failure = explain(error)
        return render("room/login.html", failure.status, problem=failure.message, next=address)
    response = RedirectResponse(address, status_code=303, headers=HEADERS)
    max_age_s = int(MAX_AGE.total_seconds())
    cookies.set_cookie(request, response, ROOM, token, max_age_s=max_age_s)
    return response


@public.post("/logout")
async def logout(
    request: Request, services: ServicesDep, csrf: Annotated[str, Form()] = ""
) -> Response:
    """End the session."""
    token = cookies.read_cookie(request, ROOM)
    if not cookies.same_origin(request) or not cookies.same_token(cookies.csrf_of(token), csrf):
        raise HTTPException(403)
    await run_in_threadpool(services.storage.browser_sessions.close, token)
    response = RedirectResponse("/login", status_code=303, headers=HEADERS)
    cookies.delete_cookie(request, response, ROOM)
    return response


@private.get("/")
async def documents_page(
    request: Request,
    caller: CallerDep,
    services: ServicesDep,
    search: Annotated[str, Query(max_length=MAX_SEARCH_CHARS)] = "",
    state: Annotated[str, Query(max_length=20)] = "",
    after: Annotated[str | None, Query(max_length=64)] = None,
) -> Response:
    """Show the documents, or with `HX-Request` the list alone."""
    after_id = None if after is None else parse_document_id(after)
    listing = await run_in_threadpool(
        list_documents, services, caller.tenant_id, search.strip(), state, after_id
    )
    if "hx-request" in request.headers:
        return render("room/list.html", listing=listing, can_write=Scope.WRITE in caller.scopes)
    tenant = await run_in_threadpool(services.storage.tenants.of, caller.tenant_id)
    return render(
        "room/documents.html",
        listing=listing,
        states=STATES,
        tenant=tenant.name,
        can_write=Scope.WRITE in caller.scopes,
        max_upload_bytes=services.config.max_upload_bytes,
        csrf=csrf_token(request),
    )


@private.get("/room/{document_id}")
async def document_page(
    document_id: str,
    request: Request,
    caller: CallerDep,
    services: ServicesDep,
    texts: TextsDep,
) -> Response:
    """Show a document beside the conversation about it."""
    key = parse_document_id(document_id)
    shown, text, problem = await _open(services, texts, caller, key)
    body = shown.body
    return render(
        "room/document.html",
        document=shown,
        body=body,
        text=text,
        parts=() if text is None else text.parts,
        sheets=_sheets(shown, text),
        blocks=() if text is None or not text.parts else _blocks(shown, text, 0),
        problem=problem,
        quotes=services.config.answer_mode == "quote",
        max_question_chars=services.config.max_question_chars,
        max_answer_tokens=services.config.max_answer_tokens,
        can_ask=Scope.ASK in caller.scopes,
        can_write=Scope.WRITE in caller.scopes,
        csrf=csrf_token(request),
    )


@private.get("/room/{document_id}/parts/{number}")
async def document_parts(
    document_id: str,
    number: int,
    caller: CallerDep,
    services: ServicesDep,
    texts: TextsDep,
    count: Annotated[int, Query(ge=1, le=MAX_PARTS)] = 1,
) -> Response:
    """Return parts of a document's text, from one on, as blocks."""
    key = parse_document_id(document_id)
    shown, text, _ = await _open(services, texts, caller, key)
    if text is None or not 0 <= number < len(text.parts):
        raise InvalidInput(NO_PART)
    numbers = range(number, min(number + count, len(text.parts)))
    return render("room/parts.html", parts=[_blocks(shown, text, one) for one in numbers])


@private.get("/room/{document_id}/history")
async def document_history(
    document_id: str, tenant_id: TenantDep, services: ServicesDep
) -> History:
    """Return earlier conversations about a document."""
    key = parse_document_id(document_id)
    return await run_in_threadpool(read_history, services.storage, tenant_id, key)


def _open_session(services: Services, key: str) -> str:
    caller = services.storage.keys.verify(key)
    return services.storage.browser_sessions.open(caller.id)


async def _open(
    services: Services, texts: Texts, caller: ApiKeyRecord, document_id: UUID
) -> tuple[ShownDocument, ShownText | None, str]:
    """Return a document, its text, and why there is none if there is none."""
    shown, document = await run_in_threadpool(_find, services, caller.tenant_id, document_id)
    if document.status is DocumentStatus.FAILED:
        return shown, await texts.extract(services, caller.owner, document), ""
    if document.status not in (DocumentStatus.READY, DocumentStatus.READABLE):
        return shown, None, ""
    try:
        text = await run_in_threadpool(texts.read, services, caller.tenant_id, document_id)
    except (InvalidInput, NotReady) as error:
        return shown, None, error.message
    return shown, text, ""


def _find(
    services: Services, tenant_id: UUID, document_id: UUID
) -> tuple[ShownDocument, DocumentRecord]:
    document = services.storage.documents.get(tenant_id, document_id)
    return show_documents(services, [document])[0], document


def _sheets(shown: ShownDocument, text: ShownText | None) -> tuple[Page, ...]:
    """The pages that are shown as pictures: those of a PDF that was read."""
    is_shown = shown.body.media_type == PDF and shown.body.status is not DocumentStatus.FAILED
    return text.document.pages if text is not None and is_shown else ()


def _blocks(shown: ShownDocument, text: ShownText, number: int) -> object:
    return blocks_of(
        text.document,
        text.parts[number],
        has_pages=shown.body.media_type == PDF,
    )


def install(app: FastAPI) -> None:
    """Add the reading room's routes and state to `app`."""
    app.state.texts = Texts()
    app.include_router(public)
    app.include_router(private)
    app.include_router(api_page.router)
