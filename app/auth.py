"""Who asks: every router depends on a Bearer key, so a new route is closed by default."""

from typing import Annotated
from uuid import UUID

from fastapi import Depends
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from app.services import ServicesDep
from common.errors import Unauthorized

HELP = "Send your API key as `Authorization: Bearer lk_...`."
scheme = HTTPBearer(auto_error=False, scheme_name="API key", description=HELP)
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(scheme)]


async def authenticate(given: Credentials, services: ServicesDep) -> UUID:
    """Return the tenant whose key came with the request.

    Raises: Unauthorized without a key, or with an unknown, expired or revoked one.
    """
    if given is None:
        raise Unauthorized(HELP)
    return await run_in_threadpool(services.storage.keys.verify, given.credentials)


TenantDep = Annotated[UUID, Depends(authenticate)]
