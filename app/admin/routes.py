"""Routes of the dashboard: login, logout, the page, and the part of it that refreshes itself."""

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Form, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException

from app.admin import guard
from app.admin.guard import AdminStateDep, SessionDep
from app.admin.overview import Overview, collect_overview
from app.http import cookies
from app.http.errors import explain
from app.services.services import Services, ServicesDep
from app.web.pages import HEADERS, render
from common.errors import Transient

public = APIRouter(prefix="/admin", include_in_schema=False)
private = APIRouter(
    prefix="/admin",
    include_in_schema=False,
    dependencies=[Depends(guard.require_session)],
    route_class=guard.SessionRoute,
)
MAX_PASSWORD_CHARS = 200
WRONG_PASSWORD = "That is not the password."


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


@private.post("/logout")
async def logout(
    request: Request, state: AdminStateDep, session: SessionDep, csrf: Annotated[str, Form()] = ""
) -> Response:
    """End the session."""
    if not cookies.same_origin(request) or not cookies.same_token(session.csrf, csrf):
        raise HTTPException(403)
    state.sessions.close(cookies.read_cookie(request, guard.COOKIE))
    response = RedirectResponse(guard.LOGIN, status_code=303, headers=HEADERS)
    cookies.delete_cookie(request, response, guard.COOKIE)
    return response


@private.get("")
async def page(services: ServicesDep, session: SessionDep, live: bool = True) -> Response:
    """Show queue, documents and figures; with `live=false` the page does not refresh itself."""
    overview = await run_in_threadpool(_overview, services)
    return render("admin/overview.html", view=overview, csrf=session.csrf, live=live)


@private.get("/live")
async def live_part(services: ServicesDep) -> Response:
    """Return the part that refreshes itself."""
    overview = await run_in_threadpool(_overview, services)
    return render("admin/live.html", view=overview)


def _overview(services: Services) -> Overview:
    dashboard = services.storage.dashboard
    return collect_overview(dashboard, services.resident_documents, services.question_queue)


def install(app: FastAPI, data_dir: Path) -> None:
    """Add the dashboard's routes and state to `app`.

    Args:
        data_dir: the data folder, in which the password's hash is stored.
    """
    guard.install(app, data_dir)
    app.include_router(public)
    app.include_router(private)
