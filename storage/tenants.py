"""Tenants, which own documents and API keys."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import delete, select, update
from sqlalchemy.exc import IntegrityError

from common.errors import InvalidInput, TenantNotFound
from storage.db.database import Database
from storage.db.records import TenantRecord, record
from storage.db.tables import ApiKey, Tenant, Usage

DEFAULT = "default"
MAX_NAME_CHARS = 200


class Tenants:
    """The tenants of one database."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def create(self, name: str, document_ttl_s: int | None = None) -> UUID:
        """Add a tenant and return its id.

        Args:
            name: a line of text that no other tenant has.
            document_ttl_s: seconds after which its documents are deleted by default.
        Raises: InvalidInput if the name is taken, or cannot be shown on a line.
        """
        if not name.strip() or not name.isprintable() or len(name) > MAX_NAME_CHARS:
            raise InvalidInput(f"A tenant's name is a line of 1 to {MAX_NAME_CHARS} characters.")
        try:
            with self._db.session() as session:
                now = self._db.now(session)
                tenant = Tenant(name=name, created_at=now, document_ttl_s=document_ttl_s)
                session.add(tenant)
                session.flush()
                return tenant.id
        except IntegrityError as error:
            raise InvalidInput(f"There is a tenant called '{name}' already.") from error

    def default(self) -> UUID:
        """Return the default tenant, which is made if it is missing."""
        tenant_id = self.find(DEFAULT)
        if tenant_id is not None:
            return tenant_id
        try:
            return self.create(DEFAULT)
        except InvalidInput:  # another process has just made it
            return self.default()

    def find(self, name: str) -> UUID | None:
        """Return the tenant of that name; None if there is none."""
        with self._db.reading() as session:
            return session.scalar(select(Tenant.id).where(Tenant.name == name))

    def get(self, name: str) -> TenantRecord:
        """Return the tenant of that name. Raises: TenantNotFound."""
        return self._one(Tenant.name == name, name)

    def of(self, tenant_id: UUID) -> TenantRecord:
        """Return the tenant with this id. Raises: TenantNotFound if it was deleted."""
        return self._one(Tenant.id == tenant_id, str(tenant_id))

    def existing(self, tenant_ids: Iterable[UUID]) -> frozenset[UUID]:
        """Return those of these tenants that there still are."""
        with self._db.reading() as session:
            found = select(Tenant.id).where(Tenant.id.in_(tuple(tenant_ids)))
            return frozenset(session.scalars(found))

    def list(self) -> Sequence[TenantRecord]:
        """Return all tenants by name."""
        with self._db.reading() as session:
            tenants = session.scalars(select(Tenant).order_by(Tenant.name))
            return tuple(record(TenantRecord, row) for row in tenants)

    def suspend(self, tenant_id: UUID) -> None:
        """Refuse the tenant's keys from the next request on, and let its documents wait."""
        with self._db.session() as session:
            active = update(Tenant).where(Tenant.id == tenant_id, Tenant.suspended_at.is_(None))
            session.execute(active.values(suspended_at=self._db.now(session)))

    def resume(self, tenant_id: UUID) -> None:
        """Let a suspended tenant go on."""
        self._set(tenant_id, suspended_at=None)

    def set_document_ttl(self, tenant_id: UUID, document_ttl_s: int | None) -> None:
        """Set after how many seconds new documents are deleted by default; None for never."""
        self._set(tenant_id, document_ttl_s=document_ttl_s)

    def remove(self, tenant_id: UUID) -> None:
        """Remove the row of a tenant whose documents are deleted, with all rows that hang on it."""
        with self._db.session() as session:
            keys = select(ApiKey.id).where(ApiKey.tenant_id == tenant_id)
            owners = [tenant_id, *session.scalars(keys)]
            session.execute(delete(Usage).where(Usage.owner_id.in_(owners)))
            session.execute(delete(Tenant).where(Tenant.id == tenant_id))

    def _set(self, tenant_id: UUID, **values: Any) -> None:
        with self._db.session() as session:
            session.execute(update(Tenant).where(Tenant.id == tenant_id).values(**values))

    def _one(self, condition: Any, name: str) -> TenantRecord:
        with self._db.reading() as session:
            row = session.scalar(select(Tenant).where(condition))
            if row is None:
                raise TenantNotFound(
                    f"There is no tenant '{name}'; `lectern tenant list` shows all."
                )
            return record(TenantRecord, row)
