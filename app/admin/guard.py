"""Who may see the dashboard: a session cookie, and forms from our own pages only."""

import hmac
import threading
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, FastAPI, Request
from fastapi.responses import RedirectResponse, Response

from app.admin.sessions import LoginLimiter, Session, Sessions

LOGIN = "/admin/login"


class LoginRequired(Exception):
    """The page is for people who have logged in."""


@dataclass(frozen=True)
class Desk:
    """The dashboard's own state; `hashing` keeps password checks to one at a time."""

    sessions: Sessions = field(default_factory=Sessions)
    limiter: LoginLimiter = field(default_factory=LoginLimiter)
    hashing: threading.Lock = field(default_factory=threading.Lock)


def desk_of(request: Request) -> Desk:
    """Return the dashboard's state of the app that answers `request`."""
    desk: Desk = request.app.state.admin
    return desk


DeskDep = Annotated[Desk, Depends(desk_of)]


async def require_session(request: Request, desk: DeskDep) -> Session:
    """Return the caller's session. Raises: LoginRequired."""
    token = request.cookies.get(cookie_name(request), "")
    session = desk.sessions.find(token, touch="hx-request" not in request.headers)
    if session is None:
        raise LoginRequired
    return session


SessionDep = Annotated[Session, Depends(require_session)]


def cookie_name(request: Request) -> str:
    """Over TLS the name carries the `__Host-` prefix, which browsers hold to its promises."""
    return "__Host-lectern" if request.url.scheme == "https" else "lectern"


def set_cookie(request: Request, response: Response, token: str) -> None:
    """Hand the session to the browser, out of reach of scripts and of other sites."""
    response.set_cookie(
        cookie_name(request),
        token,
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


def same_origin(request: Request) -> bool:
    """Whether a form came from our own pages; SameSite alone does not tell ports apart."""
    host = request.headers.get("host", "")
    return request.headers.get("origin") in (f"http://{host}", f"https://{host}")


def same_token(session: Session, given: str) -> bool:
    """Whether a form carries its session's token."""
    return hmac.compare_digest(session.csrf.encode(), given.encode(errors="surrogatepass"))


def install(app: FastAPI) -> None:
    """Give `app` the dashboard's state, and send strangers to the login page."""
    app.state.admin = Desk()
    app.add_exception_handler(LoginRequired, _to_login)


async def _to_login(request: Request, _: Exception) -> Response:
    if "hx-request" in request.headers:  # the page that polls must leave, not show the form inside
        return Response(status_code=401, headers={"hx-redirect": LOGIN})
    return RedirectResponse(LOGIN, status_code=303)
