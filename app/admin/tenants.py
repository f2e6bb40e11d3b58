"""Collect what the dashboard shows of tenants, and of one tenant with its keys."""

from dataclasses import dataclass
from uuid import UUID

from app.services.services import Services
from storage.dashboard import TenantRow
from storage.db.records import ApiKeyRecord, TenantRecord
from storage.quotas.quotas import ResourceUse
from storage.quotas.resources import Resource

MAX_ROWS = 100
MAX_KEYS = 100
RESOURCE_WORDS = {
    Resource.REQUESTS: "Requests a minute",
    Resource.TOKENS: "Tokens a day",
    Resource.QUESTIONS: "Questions at once",
    Resource.QUEUED_JOBS: "Documents in the queue",
    Resource.DOCUMENTS: "Documents",
    Resource.BYTES: "Bytes stored",
}


@dataclass(frozen=True)
class KeyUse:
    """An API key, and what it has used of its own limits and its tenant's."""

    key: ApiKeyRecord
    uses: tuple[ResourceUse, ...]


@dataclass(frozen=True)
class TenantDetail:
    """A tenant, what it has used, and its keys, the newest first."""

    tenant: TenantRecord
    uses: tuple[ResourceUse, ...]
    keys: tuple[KeyUse, ...]


def list_tenants(services: Services) -> tuple[TenantRow, ...]:
    """Return the tenants with the most documents."""
    return services.storage.dashboard.tenants(MAX_ROWS)


def describe_tenant(services: Services, tenant_id: UUID) -> TenantDetail:
    """Return all about a tenant. Raises: TenantNotFound."""
    storage = services.storage
    tenant = storage.tenants.of(tenant_id)
    keys = [*storage.keys.list(tenant_id)][::-1][:MAX_KEYS]
    return TenantDetail(
        tenant,
        storage.quotas.use(tenant_id),
        tuple(KeyUse(key, _own_uses(services, tenant_id, key)) for key in keys),
    )


def _own_uses(services: Services, tenant_id: UUID, key: ApiKeyRecord) -> tuple[ResourceUse, ...]:
    """What a key that may still be used has used of anything that is counted for it."""
    if key.revoked_at is not None:
        return ()
    uses = services.storage.quotas.use(tenant_id, key)
    return tuple(use for use in uses if use.key_limit is not None or use.key_used)
