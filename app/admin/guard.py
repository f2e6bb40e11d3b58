"""Access to the dashboard: session cookies, and forms that come from our own pages."""

import hmac
import threading
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, FastAPI, Request
from fastapi.responses import RedirectResponse, Response

from app.admin.sessions import LoginLimiter, Session, Sessions

LOGIN = "/admin/login"


class LoginRequired(Exception):
    """The page can only be seen after a login."""


@dataclass(frozen=True)
class AdminState:
    """The dashboard's own state.

    Attributes:
        sessions: the logins.
        limiter: counts login attempts.
        hashing: lets only one password be checked at a time, because that takes much memory.
    """

    sessions: Sessions = field(default_factory=Sessions)
    limiter: LoginLimiter = field(default_factory=LoginLimiter)
    hashing: threading.Lock = field(default_factory=threading.Lock)


def admin_state_of(request: Request) -> AdminState:
    """Return the dashboard's state of the app that answers this request."""
    state: AdminState = request.app.state.admin
    return state


AdminStateDep = Annotated[AdminState, Depends(admin_state_of)]


async def require_session(request: Request, state: AdminStateDep) -> Session:
    """Return the caller's session. Raises: LoginRequired."""
    token = request.cookies.get(cookie_name(request), "")
    session = state.sessions.find(token, touch="hx-request" not in request.headers)
    if session is None:
        raise LoginRequired
    return session


SessionDep = Annotated[Session, Depends(require_session)]


def cookie_name(request: Request) -> str:
    """Return the session cookie's name; over TLS browsers enforce the rules of its prefix."""
    return "__Host-lectern" if request.url.scheme == "https" else "lectern"


def set_cookie(request: Request, response: Response, token: str) -> None:
    """Set the session cookie so that neither scripts nor other sites can use it."""
    response.set_cookie(
        cookie_name(request),
        token,
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


def same_origin(request: Request) -> bool:
    """Return whether a form came from our own pages; SameSite alone ignores the port."""
    host = request.headers.get("host", "")
    return request.headers.get("origin") in (f"http://{host}", f"https://{host}")


def same_token(session: Session, token: str) -> bool:
    """Return whether a form's token is the one of its session."""
    return hmac.compare_digest(session.csrf.encode(), token.encode(errors="surrogatepass"))


def install(app: FastAPI) -> None:
    """Add the dashboard's state to `app`, and redirect to the login page where it is needed."""
    app.state.admin = AdminState()
    app.add_exception_handler(LoginRequired, _redirect_to_login)


async def _redirect_to_login(request: Request, _: Exception) -> Response:
    if "hx-request" in request.headers:  # the whole page must change, not the part that polls
        return Response(status_code=401, headers={"hx-redirect": LOGIN})
    return RedirectResponse(LOGIN, status_code=303)
