"""Routes of the dashboard: login, logout, the page, and the part of it that refreshes itself."""

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Form, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException

from app.admin import guard
from app.admin.guard import AdminState, AdminStateDep, SessionDep
from app.admin.overview import Overview, collect_overview
from app.admin.pages import HEADERS, render, static_file
from app.admin.password import check_password
from app.services.services import Services, ServicesDep

public = APIRouter(prefix="/admin", include_in_schema=False)
private = APIRouter(
    prefix="/admin", include_in_schema=False, dependencies=[Depends(guard.require_session)]
)
MAX_PASSWORD_CHARS = 200
WRONG_PASSWORD = "That is not the password."
TOO_MANY_ATTEMPTS = "Too many attempts; wait a minute."


@public.get("/login")
async def login_page() -> Response:
    """Show the login form."""
    return render("login.html", problem=None)


@public.post("/login")
async def login(
    request: Request,
    state: AdminStateDep,
    services: ServicesDep,
    password: Annotated[str, Form(max_length=MAX_PASSWORD_CHARS)] = "",
) -> Response:
    """Open a session if the password is right."""
    if not guard.same_origin(request):
        raise HTTPException(403)
    address = request.client.host if request.client else "unknown"
    if not state.limiter.allow(address):
        page = render("login.html", 429, problem=TOO_MANY_ATTEMPTS)
        page.headers["retry-after"] = "60"
        return page
    if not await run_in_threadpool(_check_password, state, services.data_dir, password):
        return render("login.html", 401, problem=WRONG_PASSWORD)
    response = RedirectResponse("/admin", status_code=303, headers=HEADERS)
    guard.set_cookie(request, response, state.sessions.open())
    return response


@public.get("/static/{name}")
async def static(name: str) -> Response:
    """Serve a style sheet, a script or the icon."""
    response = static_file(name)
    if response is None:
        raise HTTPException(404)
    return response


@private.post("/logout")
async def logout(
    request: Request, state: AdminStateDep, session: SessionDep, csrf: Annotated[str, Form()] = ""
) -> Response:
    """End the session."""
    if not guard.same_origin(request) or not guard.same_token(session, csrf):
        raise HTTPException(403)
    name = guard.cookie_name(request)
    state.sessions.close(request.cookies.get(name, ""))
    response = RedirectResponse(guard.LOGIN, status_code=303, headers=HEADERS)
    secure = request.url.scheme == "https"
    response.delete_cookie(name, httponly=True, samesite="strict", secure=secure)
    return response


@private.get("")
async def page(services: ServicesDep, session: SessionDep, live: bool = True) -> Response:
    """Show queue, documents and figures; with `live=false` the page does not refresh itself."""
    overview = await run_in_threadpool(_overview, services)
    return render("overview.html", view=overview, csrf=session.csrf, live=live)


@private.get("/live")
async def live_part(services: ServicesDep) -> Response:
    """Return the part that refreshes itself."""
    overview = await run_in_threadpool(_overview, services)
    return render("live.html", view=overview)


def _overview(services: Services) -> Overview:
    dashboard = services.storage.dashboard
    return collect_overview(dashboard, services.loaded_documents, services.question_queue)


def _check_password(state: AdminState, data_dir: Path, password: str) -> bool:
    with state.hashing:
        return check_password(data_dir, password)


def install(app: FastAPI) -> None:
    """Add the dashboard's routes and state to `app`."""
    guard.install(app)
    app.include_router(public)
    app.include_router(private)
