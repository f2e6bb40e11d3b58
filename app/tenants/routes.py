"""Routes of a tenant: what it has used, its keys, and how long it keeps documents."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from fastapi import APIRouter, Response
from fastapi.concurrency import run_in_threadpool

from app.http.auth import CallerDep, ScopedRoute, needs
from app.services.services import Services, ServicesDep
from app.tenants.schemas import (
    KeyBody,
    KeyList,
    MadeKeyBody,
    NewKeyBody,
    QuotaBody,
    TenantChange,
    key_fields,
    resource_body,
)
from common.errors import KeyNotFound, ScopeMissing
from common.scopes import Scope, parse_scopes
from storage.db.records import ApiKeyRecord

router = APIRouter(tags=["tenant"], route_class=ScopedRoute)
READS, RULES = [needs(Scope.READ)], [needs(Scope.ADMIN)]
NO_KEY = "There is no such key."


@router.get("/usage", dependencies=READS)
async def usage(caller: CallerDep, services: ServicesDep) -> QuotaBody:
    """Return what the tenant and the key of the request may use, and have used."""
    return await run_in_threadpool(_usage, services, caller)


@router.patch("/tenant", dependencies=RULES)
async def change_tenant(
    change: TenantChange, caller: CallerDep, services: ServicesDep
) -> QuotaBody:
    """Change how long documents are kept that are uploaded from now on and do not say so."""
    tenants = services.storage.tenants
    await run_in_threadpool(tenants.set_document_ttl, caller.tenant_id, change.document_ttl_s)
    return await run_in_threadpool(_usage, services, caller)


@router.get("/keys", dependencies=RULES)
async def list_keys(caller: CallerDep, services: ServicesDep) -> KeyList:
    """List the tenant's keys, oldest first, without their secrets."""
    keys = await run_in_threadpool(services.storage.keys.list, caller.tenant_id)
    return KeyList(object="list", data=[KeyBody.model_validate(key_fields(key)) for key in keys])


@router.post("/keys", status_code=201, dependencies=RULES)
async def make_key(body: NewKeyBody, caller: CallerDep, services: ServicesDep) -> MadeKeyBody:
    """Make a key for the same tenant, which may do no more than the key of the request."""
    return await run_in_threadpool(_make_key, services, caller, body)


@router.delete("/keys/{key_id}", status_code=204, dependencies=RULES)
async def revoke_key(key_id: str, caller: CallerDep, services: ServicesDep) -> Response:
    """Revoke one of the tenant's keys, from the next request on."""
    keys = services.storage.keys
    await run_in_threadpool(keys.revoke, caller.tenant_id, _parse_key_id(key_id))
    return Response(status_code=204)


def _usage(services: Services, caller: ApiKeyRecord) -> QuotaBody:
    tenant = services.storage.tenants.of(caller.tenant_id)
    uses = services.storage.quotas.use(caller.tenant_id, caller)
    return QuotaBody(
        object="usage",
        tenant_id=str(tenant.id),
        tenant=tenant.name,
        key_id=str(caller.id),
        scopes=list(caller.scopes),
        document_ttl_s=tenant.document_ttl_s,
        resources={use.resource: resource_body(use) for use in uses},
    )


def _make_key(services: Services, caller: ApiKeyRecord, body: NewKeyBody) -> MadeKeyBody:
    scopes = parse_scopes(body.scopes)
    if not set(scopes) <= set(caller.scopes):
        raise ScopeMissing("A key can only pass on the scopes that it has itself.", param="scopes")
    expires_at = caller.expires_at
    if body.expires_in_days is not None:
        wanted = datetime.now(UTC) + timedelta(days=body.expires_in_days)
        expires_at = wanted if expires_at is None else min(expires_at, wanted)
    text, key = services.storage.keys.create(caller.tenant_id, body.name, expires_at, scopes)
    if body.limits:
        services.storage.quotas.limits.set_for_key(key.id, dict(body.limits))
    return MadeKeyBody.model_validate({**key_fields(key), "key": text})


def _parse_key_id(text: str) -> UUID:
    """Parse a key's id. Raises: KeyNotFound, as for an id that no key has."""
    try:
        return UUID(text)
    except ValueError:
        raise KeyNotFound(NO_KEY) from None
