"""Access to the dashboard: session cookies, and forms that come from our own pages."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi.responses import RedirectResponse, Response
from fastapi.routing import APIRoute

from app.admin.logins import Logins
from app.http.cookies import read_cookie
from app.http.sessions import Session, Sessions
from common.recent_lines import RecentLines

LOGIN = "/admin/login"
COOKIE = "lectern"


class LoginRequired(Exception):
    """The page can only be seen after a login."""


@dataclass(frozen=True)
class AdminState:
    """The dashboard's own state.

    Attributes:
        logins: checks passwords.
        sessions: those who have logged in.
        lines: the latest warnings of this process.
    """

    logins: Logins
    sessions: Sessions = field(default_factory=Sessions)
    lines: RecentLines = field(default_factory=RecentLines)


async def admin_state_of(request: Request) -> AdminState:
    """Return the dashboard's state of the app that answers this request."""
    state: AdminState = request.app.state.admin
    return state


AdminStateDep = Annotated[AdminState, Depends(admin_state_of)]


async def require_session(request: Request, state: AdminStateDep) -> Session:
    """Return the caller's session. Raises: LoginRequired."""
    token = read_cookie(request, COOKIE)
    session = state.sessions.find(token, touch="hx-request" not in request.headers)
    if session is None:
        raise LoginRequired
    return session


SessionDep = Annotated[Session, Depends(require_session)]


class SessionRoute(APIRoute):
    """A route that checks the session before the request's body is read and parsed."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler with the check before it."""
        handle = super().get_route_handler()

        async def check_and_handle(request: Request) -> Response:
            await require_session(request, await admin_state_of(request))
            return await handle(request)

        return check_and_handle


def install(app: FastAPI, data_dir: Path) -> None:
    """Add the dashboard's state to `app`, and redirect to the login page where it is needed.

    Args:
        data_dir: the data folder, in which the password's hash is stored.
    """
    app.state.admin = AdminState(Logins(data_dir))
    app.add_exception_handler(LoginRequired, _redirect_to_login)


async def _redirect_to_login(request: Request, _: Exception) -> Response:
    if "hx-request" in request.headers:  # the whole page must change, not the part that polls
        return Response(status_code=401, headers={"hx-redirect": LOGIN})
    return RedirectResponse(LOGIN, status_code=303)
