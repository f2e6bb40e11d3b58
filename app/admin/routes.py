"""The dashboard's routes: login, logout, the page and the part of it that refreshes itself."""

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Form, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException

from app.admin import guard
from app.admin.guard import Desk, DeskDep, SessionDep
from app.admin.overview import take_overview
from app.admin.pages import HEADERS, render, static_file
from app.admin.password import check_password
from app.services.services import ServicesDep

public = APIRouter(prefix="/admin", include_in_schema=False)
private = APIRouter(
    prefix="/admin", include_in_schema=False, dependencies=[Depends(guard.require_session)]
)
MAX_PASSWORD_CHARS = 200
WRONG = "That is not the password."
TOO_MANY = "Too many attempts; wait a minute."


@public.get("/login")
async def login_page() -> Response:
    """Show the form."""
    return render("login.html", problem=None)


@public.post("/login")
async def login(
    request: Request,
    desk: DeskDep,
    services: ServicesDep,
    password: Annotated[str, Form(max_length=MAX_PASSWORD_CHARS)] = "",
) -> Response:
    """Open a session, new at every login, for whoever knows the password."""
    if not guard.same_origin(request):
        raise HTTPException(403)
    address = request.client.host if request.client else "unknown"
    if not desk.limiter.allow(address):
        page = render("login.html", 429, problem=TOO_MANY)
        page.headers["retry-after"] = "60"
        return page
    data_dir = services.data_dir
    if not await run_in_threadpool(_check, desk, data_dir, password):
        return render("login.html", 401, problem=WRONG)
    response = RedirectResponse("/admin", status_code=303, headers=HEADERS)
    guard.set_cookie(request, response, desk.sessions.open())
    return response


@public.get("/static/{name}")
async def static(name: str) -> Response:
    """Serve a style sheet, a script or the icon."""
    found = static_file(name)
    if found is None:
        raise HTTPException(404)
    return found


@private.post("/logout")
async def logout(
    request: Request, desk: DeskDep, session: SessionDep, csrf: Annotated[str, Form()] = ""
) -> Response:
    """End the session."""
    if not guard.same_origin(request) or not guard.same_token(session, csrf):
        raise HTTPException(403)
    name = guard.cookie_name(request)
    desk.sessions.close(request.cookies.get(name, ""))
    response = RedirectResponse(guard.LOGIN, status_code=303, headers=HEADERS)
    secure = request.url.scheme == "https"
    response.delete_cookie(name, httponly=True, samesite="strict", secure=secure)
    return response


@private.get("")
async def page(services: ServicesDep, session: SessionDep, live: bool = True) -> Response:
    """Show queue, documents and figures; `live=false` stands still."""
    view = await run_in_threadpool(take_overview, services)
    return render("overview.html", view=view, csrf=session.csrf, live=live)


@private.get("/live")
async def live_part(services: ServicesDep) -> Response:
    """Return the part that refreshes itself."""
    return render("live.html", view=await run_in_threadpool(take_overview, services))


def _check(desk: Desk, data_dir: Path, password: str) -> bool:
    with desk.hashing:
        return check_password(data_dir, password)


def install(app: FastAPI) -> None:
    """Add the dashboard to `app`."""
    guard.install(app)
    app.include_router(public)
    app.include_router(private)
