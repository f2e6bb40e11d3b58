"""The limits of tenants and keys: rows in SQL, so that they change without a restart."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from uuid import UUID

from sqlalchemy import bindparam, delete, literal, select, union_all
from sqlalchemy.orm import Session

from storage.db.database import Database
from storage.db.records import ApiKeyRecord
from storage.db.tables import KeyLimit, TenantLimit
from storage.quotas.resources import Resource

MAX_AGE_S = 2.0
MAX_CACHED = 10_000


FOUND = union_all(
    select(literal(0).label("is_of_key"), TenantLimit.resource, TenantLimit.amount).where(
        TenantLimit.tenant_id == bindparam("tenant")
    ),
    select(literal(1), KeyLimit.resource, KeyLimit.amount).where(
        KeyLimit.key_id == bindparam("key")
    ),
)


@dataclass(frozen=True)
class Limit:
    """How much of a resource an owner may use.

    Attributes:
        owner_id: the tenant or the key.
        is_of_key: whether it is the key.
    """

    owner_id: UUID
    is_of_key: bool
    amount: int


# The limits that a key is under: none, its tenant's, its own or both, for each resource.
Limits = Mapping[Resource, tuple[Limit, ...]]
NO_LIMITS: Limits = MappingProxyType({})


class LimitBook:
    """The limits of all tenants and keys.

    What a key is under is remembered for two seconds, so that most requests need no query for it.

    Args:
        max_age_s: seconds for which limits are remembered.
    """

    def __init__(self, db: Database, max_age_s: float = MAX_AGE_S) -> None:
        self._db = db
        self._max_age_s = max_age_s
        self._lock = threading.Lock()
        self._known: dict[UUID, tuple[float, Limits]] = {}  # by key, with when it was read

    def of(self, caller: ApiKeyRecord) -> Limits:
        """Return all limits that a key is under."""
        now_s = time.monotonic()
        with self._lock:
            read_s, limits = self._known.get(caller.id, (float("-inf"), NO_LIMITS))
        if now_s - read_s < self._max_age_s:
            return limits
        limits = self._read(caller)
        with self._lock:
            if len(self._known) >= MAX_CACHED:
                self._known.clear()
            self._known[caller.id] = (now_s, limits)
        return limits

    def of_tenant(self, tenant_id: UUID) -> Mapping[Resource, int]:
        """Return the limits of a tenant; what is not limited is left out."""
        return self._amounts(TenantLimit, TenantLimit.tenant_id, tenant_id)

    def of_key(self, key_id: UUID) -> Mapping[Resource, int]:
        """Return the limits of a key itself; what is not limited is left out."""
        return self._amounts(KeyLimit, KeyLimit.key_id, key_id)

    def set_for_tenant(self, tenant_id: UUID, amounts: Mapping[Resource, int | None]) -> None:
        """Set limits of a tenant; None removes one, and those not named stay."""
        with self._db.session() as session:
            for resource, amount in amounts.items():
                own = (TenantLimit.tenant_id == tenant_id, TenantLimit.resource == resource)
                session.execute(delete(TenantLimit).where(*own))
                if amount is not None:
                    row = TenantLimit(tenant_id=tenant_id, resource=resource, amount=amount)
                    session.add(row)
        self._forget()

    def set_for_key(self, key_id: UUID, amounts: Mapping[Resource, int | None]) -> None:
        """Set limits of a key; None removes one, and those not named stay."""
        with self._db.session() as session:
            for resource, amount in amounts.items():
                own = (KeyLimit.key_id == key_id, KeyLimit.resource == resource)
                session.execute(delete(KeyLimit).where(*own))
                if amount is not None:
                    session.add(KeyLimit(key_id=key_id, resource=resource, amount=amount))
        self._forget()

    def _read(self, caller: ApiKeyRecord) -> Limits:
        limits: dict[Resource, tuple[Limit, ...]] = {}
        for is_of_key, name, amount in self._db.rows(FOUND, tenant=caller.tenant_id, key=caller.id):
            resource = _known_resource(name)
            if resource is not None:
                owner_id = caller.id if is_of_key else caller.tenant_id
                limit = Limit(owner_id, bool(is_of_key), amount)
                limits[resource] = (*limits.get(resource, ()), limit)
        return limits

    def _amounts(self, table: Any, column: Any, owner_id: UUID) -> Mapping[Resource, int]:
        with self._db.reading() as session:
            rows = _rows(session, table, column, owner_id)
        return {resource: amount for resource, amount in rows if resource is not None}

    def _forget(self) -> None:
        with self._lock:
            self._known.clear()


def _rows(
    session: Session, table: Any, column: Any, owner_id: UUID
) -> list[tuple[Resource | None, int]]:
    rows = session.execute(select(table.resource, table.amount).where(column == owner_id))
    return [(_known_resource(name), amount) for name, amount in rows]


def _known_resource(name: str) -> Resource | None:
    """Return the resource of this name; None for one of a newer version."""
    try:
        return Resource(name)
    except ValueError:
        return None
