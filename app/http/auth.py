"""Authentication: all routers depend on an API key, so that a new route is closed by default."""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from app.http.exchange import exchange_of
from common.errors import Unauthorized
from storage.db.records import ApiKeyRecord
from storage.keys import ApiKeys

HELP = "Send your API key as `Authorization: Bearer lk_...`."
scheme = HTTPBearer(auto_error=False, scheme_name="API key", description=HELP)
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(scheme)]


async def keys_of(request: Request) -> ApiKeys:
    """Return the API keys of the app that answers this request.

    It is a coroutine, as all dependencies are, because FastAPI runs others on threads.
    """
    keys: ApiKeys = request.app.state.services.storage.keys
    return keys


KeysDep = Annotated[ApiKeys, Depends(keys_of)]


async def authenticate(request: Request, credentials: Credentials, keys: KeysDep) -> ApiKeyRecord:
    """Return the API key that came with the request; it is looked up once a request.

    Raises: Unauthorized without a key, or if the key is unknown, expired or revoked;
        TooManyRequests or Busy if too many requests are under way.
    """
    if credentials is None:
        raise Unauthorized(HELP)
    exchange = exchange_of(request)
    if exchange.caller is None:
        caller = await run_in_threadpool(keys.verify, credentials.credentials)
        exchange.authenticated(caller)
        return caller
    return exchange.caller


CallerDep = Annotated[ApiKeyRecord, Depends(authenticate)]


async def tenant_of(caller: CallerDep) -> UUID:
    """Return the tenant whose API key came with the request."""
    return caller.tenant_id


class AuthenticatedRoute(APIRoute):
    """A route that checks the API key before the request's body is read and parsed.

    FastAPI parses a JSON body before it calls dependencies, so that without this class a malformed
    body would be reported to callers without a key.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler with the check before it."""
        handle = super().get_route_handler()

        async def authenticate_and_handle(request: Request) -> Response:
            await authenticate(request, await scheme(request), await keys_of(request))
            return await handle(request)

        return authenticate_and_handle


TenantDep = Annotated[UUID, Depends(tenant_of)]
