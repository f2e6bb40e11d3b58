"""Who asks: every router depends on a Bearer key, so a new route is closed by default."""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from app.services.services import ServicesDep, services_of
from common.errors import Unauthorized

HELP = "Send your API key as `Authorization: Bearer lk_...`."
FOUND = "lectern.tenant"
scheme = HTTPBearer(auto_error=False, scheme_name="API key", description=HELP)
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(scheme)]


async def authenticate(request: Request, given: Credentials, services: ServicesDep) -> UUID:
    """Return the tenant whose key came with the request; looked up once.

    Raises: Unauthorized without a key, or with an unknown, expired or revoked one.
    """
    if given is None:
        raise Unauthorized(HELP)
    if FOUND not in request.scope:
        verify = services.storage.keys.verify
        request.scope[FOUND] = await run_in_threadpool(verify, given.credentials)
    tenant: UUID = request.scope[FOUND]
    return tenant


class KeyFirst(APIRoute):
    """A route with a JSON body, which FastAPI would read and parse before it asks for a key."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Put the question for the key before everything else."""
        answer = super().get_route_handler()

        async def answer_known(request: Request) -> Response:
            await authenticate(request, await scheme(request), services_of(request))
            return await answer(request)

        return answer_known


TenantDep = Annotated[UUID, Depends(authenticate)]
