"""Cookies of browser sessions, and whether a request comes from a page of this server."""

import hashlib
import hmac

from fastapi import Request
from fastapi.responses import Response

ROOM = "lectern-room"  # the cookie of the reading room
CSRF_HEADER = "x-csrf-token"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def cookie_name(request: Request, name: str) -> str:
    """Return a cookie's name; over TLS browsers enforce the rules of its prefix."""
    return f"__Host-{name}" if request.url.scheme == "https" else name


def read_cookie(request: Request, name: str) -> str:
    """Return the token of a session's cookie; "" if there is none."""
    return request.cookies.get(cookie_name(request, name), "")


def set_cookie(
    request: Request, response: Response, name: str, token: str, max_age_s: int | None = None
) -> None:
    """Set a session's cookie so that neither scripts nor other sites can use it.

    Args:
        max_age_s: how long the browser keeps it; None: until it is closed.
    """
    response.set_cookie(
        cookie_name(request, name),
        token,
        max_age=max_age_s,
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


def delete_cookie(request: Request, response: Response, name: str) -> None:
    """Remove a session's cookie."""
    secure = request.url.scheme == "https"
    name = cookie_name(request, name)
    response.delete_cookie(name, httponly=True, samesite="strict", secure=secure)


def same_origin(request: Request) -> bool:
    """Return whether a request came from our own pages; SameSite alone ignores the port.

    Browsers tell so themselves where they reach us over TLS or on their own machine, whatever name
    a proxy gives us. Elsewhere the page's origin must be the host that the request names.
    """
    if (site := request.headers.get("sec-fetch-site")) is not None:
        return site == "same-origin"
    host = request.headers.get("host", "")
    return request.headers.get("origin") in (f"http://{host}", f"https://{host}")


def csrf_of(token: str) -> str:
    """Return what forms and scripts of a session's pages send back; it follows from its token."""
    return hashlib.sha256(b"csrf:" + token.encode(errors="surrogatepass")).hexdigest()


def same_token(expected: str, token: str) -> bool:
    """Return whether the token that a form sent is the expected one."""
    return hmac.compare_digest(expected.encode(), token.encode(errors="surrogatepass"))


def may_act(request: Request, token: str) -> bool:
    """Return whether a request with a session's cookie was made by one of the session's pages.

    One that changes nothing needs no token: other sites cannot read what it returns.
    """
    if request.method in SAFE_METHODS:
        return request.headers.get("sec-fetch-site") not in ("cross-site", "same-site")
    return same_origin(request) and same_token(csrf_of(token), request.headers.get(CSRF_HEADER, ""))
