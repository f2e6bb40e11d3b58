"""Access to the reading room: a page needs the session of an API key, and shows what goes wrong."""

from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import RedirectResponse, Response
from fastapi.routing import APIRoute

from app.http.auth import authenticate, check_scopes
from app.http.cookies import ROOM, csrf_of, read_cookie
from app.http.errors import explain
from app.web.pages import HEADERS, render
from common.errors import LecternError, ScopeMissing, TenantSuspended, Unauthorized
from common.scopes import Scope

LOGIN = "/login"


class RoomRoute(APIRoute):
    """A page of the reading room.

    The session is checked before anything else. Without one the browser is sent to the login page;
    any other error becomes a page that says what is wrong and how to go on.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler with the check around it."""
        handle = super().get_route_handler()

        async def check_and_handle(request: Request) -> Response:
            try:
                if not read_cookie(request, ROOM):
                    raise Unauthorized("Log in first.")
                check_scopes(await authenticate(request, None), [Scope.READ])
                return await handle(request)
            except Unauthorized:
                return _to_login(request)
            except LecternError as error:
                return _error_page(request, error)

        return check_and_handle


def csrf_token(request: Request) -> str:
    """Return what scripts and forms of this session's pages send back."""
    return csrf_of(read_cookie(request, ROOM))


def safe_path(path: str) -> str:
    """Return a path of the reading room to go to after the login; "/" for any other."""
    is_own = path.startswith("/room/") and not path.startswith("//") and "\\" not in path
    return path if path == "/docs" or (is_own and path.isprintable()) else "/"


def _to_login(request: Request) -> Response:
    if "hx-request" in request.headers:  # the whole page must change, not the part that polls
        return Response(status_code=401, headers={"hx-redirect": LOGIN})
    path = request.url.path
    address = LOGIN if path == "/" else f"{LOGIN}?next={quote(path)}"
    return RedirectResponse(address, status_code=303, headers=HEADERS)


def _error_page(request: Request, error: LecternError) -> Response:
    failure = explain(error)
    is_part = "hx-request" in request.headers or "x-part" in request.headers
    page = render(
        "room/problem.html" if is_part else "room/error.html",
        failure.status,
        message=failure.message,
        code=failure.code,
        is_locked_out=isinstance(error, ScopeMissing | TenantSuspended),
        csrf=csrf_token(request),
    )
    page.headers.update(failure.headers())
    return page
