"""Routes of the dashboard: login, pages, the parts that refresh themselves, and actions."""

from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, FastAPI, Form, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException

from app.admin import guard
from app.admin.actions import DOCUMENT_ACTIONS, act_on_document
from app.admin.documents import describe_document, list_documents
from app.admin.guard import AdminStateDep, SessionDep
from app.admin.model import describe_model
from app.admin.overview import HOURS, collect_overview
from app.admin.tenants import RESOURCE_WORDS, describe_tenant, list_tenants
from app.documents.schemas import parse_document_id
from app.http import cookies
from app.http.errors import explain
from app.http.sessions import Session
from app.services.services import Services, ServicesDep
from app.web.pages import HEADERS, render
from common.errors import LecternError, TenantNotFound, Transient
from common.scopes import ALL_SCOPES, parse_scopes

public = APIRouter(prefix="/admin", include_in_schema=False)
private = APIRouter(
    prefix="/admin",
    include_in_schema=False,
    dependencies=[Depends(guard.require_session)],
    route_class=guard.SessionRoute,
)
MAX_PASSWORD_CHARS = 200
MAX_SEARCH_CHARS = 200
SPAN_S = 600  # of a point in the charts
WRONG_PASSWORD = "That is not the password."
TENANT_DONE = {
    "suspend": "The tenant is suspended: its keys are refused from the next request on.",
    "resume": "The tenant may go on.",
    "revoke": "The key is revoked: it is refused from the next request on.",
}
DONE = {name: action.done for name, action in DOCUMENT_ACTIONS.items()} | TENANT_DONE
Csrf = Annotated[str, Form(max_length=200)]


@public.get("/login")
async def login_page() -> Response:
    """Show the login form."""
    return render("admin/login.html", problem=None)


@public.post("/login")
async def login(
    request: Request,
    state: AdminStateDep,
    password: Annotated[str, Form(max_length=MAX_PASSWORD_CHARS)] = "",
) -> Response:
    """Open a session if the password is right."""
    if not cookies.same_origin(request):
        raise HTTPException(403)
    host = request.client.host if request.client else "unknown"
    try:
        is_right = await state.logins.check(host, password)
    except Transient as error:
        failure = explain(error)
        page = render("admin/login.html", failure.status, problem=failure.message)
        page.headers.update(failure.headers())
        return page
    if not is_right:
        return render("admin/login.html", 401, problem=WRONG_PASSWORD)
    response = RedirectResponse("/admin", status_code=303, headers=HEADERS)
    cookies.set_cookie(request, response, guard.COOKIE, state.sessions.open())
    return response


async def check_form(request: Request, session: SessionDep, csrf: Csrf = "") -> None:
    """Return if a form was sent by a page of this session. Raises: HTTPException (403)."""
    if not cookies.same_origin(request) or not cookies.same_token(session.csrf, csrf):
        raise HTTPException(403)


CHECKED = [Depends(check_form)]


@private.post("/logout", dependencies=CHECKED)
async def logout(request: Request, state: AdminStateDep) -> Response:
    """End the session."""
    state.sessions.close(cookies.read_cookie(request, guard.COOKIE))
    response = RedirectResponse(guard.LOGIN, status_code=303, headers=HEADERS)
    cookies.delete_cookie(request, response, guard.COOKIE)
    return response


# -- pages --------------------------------------------------------------------------------------


@private.get("")
async def overview_page(
    services: ServicesDep,
    state: AdminStateDep,
    session: SessionDep,
    live: bool = True,
    done: str = "",
) -> Response:
    """Show queue and figures; with `live=false` the page does not refresh itself."""
    view = await run_in_threadpool(collect_overview, services, state.lines)
    return _page(session, "overview", done, view=view, live=live)


@private.get("/live")
async def live_part(services: ServicesDep, state: AdminStateDep, session: SessionDep) -> Response:
    """Return the part that refreshes itself."""
    view = await run_in_threadpool(collect_overview, services, state.lines)
    return render("admin/live.html", view=view, csrf=session.csrf, actions=DOCUMENT_ACTIONS)


@private.get("/history")
async def history(services: ServicesDep) -> dict[str, Any]:
    """Return how many answers the last 24 hours had, and how long they took, for the charts."""
    return await run_in_threadpool(_history, services)


@private.get("/documents")
async def documents_page(
    services: ServicesDep,
    session: SessionDep,
    search: Annotated[str, Query(max_length=MAX_SEARCH_CHARS)] = "",
    done: str = "",
) -> Response:
    """Show the newest documents whose names contain a text."""
    documents = await run_in_threadpool(list_documents, services, search.strip())
    return _page(session, "documents", done, documents=documents, search=search)


@private.get("/documents/{document_id}")
async def document_page(
    document_id: str,
    services: ServicesDep,
    state: AdminStateDep,
    session: SessionDep,
    done: str = "",
) -> Response:
    """Show all about a document."""
    return await _shown(
        session,
        "document",
        done,
        lambda: describe_document(services, state.lines, parse_document_id(document_id)),
    )


@private.get("/tenants")
async def tenants_page(services: ServicesDep, session: SessionDep, done: str = "") -> Response:
    """Show the tenants."""
    tenants = await run_in_threadpool(list_tenants, services)
    return _page(session, "tenants", done, tenants=tenants)


@private.get("/tenants/{tenant_id}")
async def tenant_page(
    tenant_id: str, services: ServicesDep, session: SessionDep, done: str = ""
) -> Response:
    """Show a tenant with its keys."""
    return await _shown(
        session,
        "tenant",
        done,
        lambda: describe_tenant(services, _parse_tenant_id(tenant_id)),
        made=None,
    )


@private.get("/model")
async def model_page(services: ServicesDep, session: SessionDep) -> Response:
    """Show the model with its memory and its heads."""
    model = await run_in_threadpool(describe_model, services)
    return _page(session, "model", "", model=model)


# -- actions ------------------------------------------------------------------------------------


@private.post("/documents/{document_id}/{action}", dependencies=CHECKED)
async def act(
    document_id: str,
    action: str,
    services: ServicesDep,
    session: SessionDep,
    back: Annotated[str, Form(max_length=20)] = "",
) -> Response:
    """Do something to a document."""
    if action not in DOCUMENT_ACTIONS:
        raise HTTPException(404)
    key = parse_document_id(document_id)
    try:
        await run_in_threadpool(act_on_document, services, action, key)
    except LecternError as error:
        return _problem(session, error)
    address = "/admin" if back == "overview" else "/admin/documents"
    if back == "document" and action != "delete":
        address = f"/admin/documents/{key}"
    return _redirect(f"{address}?done={action}")


@private.post("/tenants/{tenant_id}/keys", dependencies=CHECKED)
async def create_key(
    tenant_id: str,
    services: ServicesDep,
    session: SessionDep,
    name: Annotated[str, Form(max_length=200)] = "",
    scopes: Annotated[list[str], Form()] = [],  # noqa: B006 FastAPI copies it
    days: Annotated[int | None, Form(ge=1, le=36_500)] = None,
) -> Response:
    """Make a key, and show it once."""
    key = _parse_tenant_id(tenant_id)
    expires_at = None if days is None else datetime.now(UTC) + timedelta(days=days)

    def make() -> str:
        services.storage.tenants.of(key)
        return services.storage.keys.create(key, name, expires_at, parse_scopes(scopes))[0]

    try:
        made = await run_in_threadpool(make)
    except LecternError as error:
        return _problem(session, error)
    return await _shown(session, "tenant", "", lambda: describe_tenant(services, key), made=made)


@private.post("/tenants/{tenant_id}/keys/{key_id}/revoke", dependencies=CHECKED)
async def revoke_key(
    tenant_id: str, key_id: UUID, services: ServicesDep, session: SessionDep
) -> Response:
    """Revoke a key."""
    key = _parse_tenant_id(tenant_id)
    try:
        await run_in_threadpool(services.storage.keys.revoke, key, key_id)
    except LecternError as error:
        return _problem(session, error)
    return _redirect(f"/admin/tenants/{key}?done=revoke")


@private.post("/tenants/{tenant_id}/{action}", dependencies=CHECKED)
async def act_on_tenant(tenant_id: str, action: str, services: ServicesDep) -> Response:
    """Suspend a tenant, or let it go on."""
    tenants, key = services.storage.tenants, _parse_tenant_id(tenant_id)
    if action not in ("suspend", "resume"):
        raise HTTPException(404)
    await run_in_threadpool(tenants.suspend if action == "suspend" else tenants.resume, key)
    return _redirect(f"/admin/tenants/{key}?done={action}")


def _page(session: Session, name: str, done: str, status: int = 200, **values: Any) -> Response:
    return render(
        f"admin/{name}.html",
        status,
        csrf=session.csrf,
        done=DONE.get(done, ""),
        actions=DOCUMENT_ACTIONS,
        all_scopes=ALL_SCOPES,
        resource_words=RESOURCE_WORDS,
        here=name,
        **values,
    )


async def _shown(
    session: Session, name: str, done: str, describe: Callable[[], Any], **values: Any
) -> Response:
    try:
        view = await run_in_threadpool(describe)
    except LecternError as error:
        return _problem(session, error)
    return _page(session, name, done, view=view, **values)


def _problem(session: Session, error: LecternError) -> Response:
    failure = explain(error)
    return _page(session, "problem", "", failure.status, message=failure.message, code=failure.code)


def _redirect(address: str) -> Response:
    return RedirectResponse(address, status_code=303, headers=HEADERS)


def _parse_tenant_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise TenantNotFound("There is no such tenant.") from None


def _history(services: Services) -> dict[str, Any]:
    answers = services.storage.answer_history
    return asdict(answers.throughput(HOURS, SPAN_S)) | {
        stage: asdict(answers.percentiles(stage, HOURS, SPAN_S))
        for stage in ("first_token", "per_token", "waiting")
    }


def install(app: FastAPI, data_dir: Path) -> None:
    """Add the dashboard's routes and state to `app`.

    Args:
        data_dir: the data folder, in which the password's hash is stored.
    """
    guard.install(app, data_dir)
    app.include_router(public)
    app.include_router(private)
