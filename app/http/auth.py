"""Authentication and authorisation: whose request it is, and whether its key may make it.

A route of the API names the scope that a key needs (`needs`), and cannot be made without one.
"""

from collections.abc import Callable, Coroutine, Sequence
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Request, Response, Security, params
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer, SecurityScopes
from starlette.exceptions import HTTPException

from app.http.cookies import ROOM, may_act, read_cookie
from app.http.exchange import exchange_of
from common.errors import ScopeMissing, Unauthorized
from common.scopes import Scope
from storage.db.records import ApiKeyRecord
from storage.quotas.windows import WindowSpent, WindowState
from storage.storage import Storage

HELP = "Send your API key as `Authorization: Bearer lk_...`."
scheme = HTTPBearer(auto_error=False, scheme_name="ApiKey", description=HELP)
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(scheme)]


async def authenticate(request: Request, credentials: Credentials) -> ApiKeyRecord:
    """Return the API key that came with the request; it is looked up and counted once a request.

    A page of the reading room sends the cookie of its session instead, which stands for the key
    that opened it.

    It is a coroutine, as all dependencies are, because FastAPI runs others on threads.

    Raises: Unauthorized without a key, or if the key is unknown, expired or revoked;
        HTTPException (403) for a cookie that another site made the browser send;
        TenantSuspended if it is valid, but its tenant is suspended;
        TooManyRequests or Busy if too many requests are under way, RateLimited if key or tenant
        have made as many in this minute as they may.
    """
    token = read_cookie(request, ROOM) if credentials is None else ""
    if credentials is None and not token:
        raise Unauthorized(HELP)
    exchange = exchange_of(request)
    if exchange.caller is not None:
        return exchange.caller
    storage: Storage = request.app.state.services.storage
    if credentials is not None:
        caller, state = await run_in_threadpool(admit, storage, credentials.credentials)
    elif may_act(request, token):
        caller, state = await run_in_threadpool(admit_session, storage, token)
    else:
        raise HTTPException(403)
    exchange.authenticated(caller)
    if isinstance(state, WindowSpent):
        exchange.note_window(state.state)
        raise state
    exchange.note_window(state)
    return caller


CallerDep = Annotated[ApiKeyRecord, Depends(authenticate)]


async def tenant_of(caller: CallerDep) -> UUID:
    """Return the tenant whose API key came with the request."""
    return caller.tenant_id


async def authorize(needed: SecurityScopes, caller: CallerDep) -> ApiKeyRecord:
    """Return the API key of the request, if it has the scopes that the route needs.

    Raises: what `authenticate` raises; ScopeMissing.
    """
    check_scopes(caller, needed.scopes)
    return caller


def needs(scope: Scope) -> Any:
    """Return the dependency of a route whose callers need a scope; OpenAPI shows it."""
    return Security(authorize, scopes=[scope.value])


class ScopedRoute(APIRoute):
    """A route that checks the API key and its scopes before the request's body is read and parsed.

    FastAPI parses a JSON body before it calls dependencies, so that without this class a malformed
    body would be reported to callers without a key.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler with the check before it.

        Raises: TypeError for a route that names no scope, which would be open to any key.
        """
        needed = [
            scope
            for dependency in self.dependencies
            if isinstance(dependency, params.Security)
            for scope in dependency.scopes or ()
        ]
        if not needed:
            raise TypeError(f"{self.path} names no scope; give it `dependencies=[needs(...)]`")
        handle = super().get_route_handler()

        async def authorize_and_handle(request: Request) -> Response:
            caller = await authenticate(request, await scheme(request))
            check_scopes(caller, needed)
            return await handle(request)

        return authorize_and_handle


TenantDep = Annotated[UUID, Depends(tenant_of)]


def admit(storage: Storage, key: str) -> tuple[ApiKeyRecord, WindowState | WindowSpent | None]:
    """Verify a key and count the request; a limit that is reached is returned beside the key."""
    return _count(storage, storage.keys.verify(key))


def admit_session(
    storage: Storage, token: str
) -> tuple[ApiKeyRecord, WindowState | WindowSpent | None]:
    """Find a browser session's key and count the request, as `admit` does."""
    return _count(storage, storage.browser_sessions.key_of(token))


def _count(
    storage: Storage, caller: ApiKeyRecord
) -> tuple[ApiKeyRecord, WindowState | WindowSpent | None]:
    try:
        return caller, storage.quotas.take_request(caller)
    except WindowSpent as error:
        return caller, error


def check_scopes(caller: ApiKeyRecord, needed: Sequence[str]) -> None:
    """Return if a key has all of these scopes. Raises: ScopeMissing."""
    for scope in needed:
        if scope not in caller.scopes:
            raise ScopeMissing(f"This API key may not do this; it lacks the scope `{scope}`.")
