"""Tenants, which own documents and API keys."""

from uuid import UUID

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from common.errors import InvalidInput
from storage.db.database import Database
from storage.db.tables import Tenant

DEFAULT = "default"


class Tenants:
    """The tenants of one database."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def create(self, name: str) -> UUID:
        """Add a tenant and return its id. Raises: InvalidInput if the name is taken."""
        try:
            with self._db.session() as session:
                tenant = Tenant(name=name, created_at=self._db.now(session))
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
