"""Who asks: every router depends on a Bearer key, so a new route is closed by default."""

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool

from app.services import ServicesDep
from common.errors import Unauthorized

HELP = "Send your API key as `Authorization: Bearer lk_...`."


async def authenticate(request: Request, services: ServicesDep) -> UUID:
    """Return the tenant whose key came with the request.

    Raises: Unauthorized without a key, or with an unknown, expired or revoked one.
    """
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not key.strip():
        raise Unauthorized(HELP)
    return await run_in_threadpool(services.storage.keys.verify, key.strip())


TenantDep = Annotated[UUID, Depends(authenticate)]
