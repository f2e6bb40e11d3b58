"""API keys: 256 random bits, shown once, stored as a SHA-256 hash, compared in constant time."""

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import bindparam, func, select, update

from common.errors import InvalidInput, KeyNotFound, TenantSuspended, Unauthorized
from common.scopes import ALL_SCOPES, Scope
from storage.db.database import Database
from storage.db.records import ApiKeyRecord, record
from storage.db.tables import ApiKey, Tenant
from storage.tenants import Tenants

MARK = "lk"
PREFIX_BYTES, SECRET_BYTES = 6, 32
REFUSED = "The API key is unknown, expired or revoked."
SUSPENDED = "The operator has suspended this key's tenant; ask them about it."
MAX_CHARS = 200
MAX_NAME_CHARS = 200
# Columns, since an object for each row would take most of the time of a verification.
FOUND = (
    select(*ApiKey.__table__.columns, Tenant.suspended_at)
    .join(Tenant, Tenant.id == ApiKey.tenant_id)
    .where(ApiKey.prefix == bindparam("wanted"))
)


class ApiKeys:
    """The keys of all tenants. A slow hash would not make 256 random bits any safer."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def create(
        self,
        tenant_id: UUID,
        name: str,
        expires_at: datetime | None = None,
        scopes: Sequence[Scope] = ALL_SCOPES,
    ) -> tuple[str, ApiKeyRecord]:
        """Make a key.

        Args:
            name: what the key is for, on one line.
            expires_at: an aware datetime from which on the key is refused; None for never.
            scopes: what the key may do.
        Returns: the key's text `lk_<prefix>_<secret>`, which is stored nowhere, and its record.
        Raises: InvalidInput if the name is empty, too long, or not a single line.
        """
        if not name.strip() or not name.isprintable() or len(name) > MAX_NAME_CHARS:
            raise InvalidInput(f"A key's name is a line of 1 to {MAX_NAME_CHARS} characters.")
        prefix = secrets.token_hex(PREFIX_BYTES)
        key = f"{MARK}_{prefix}_{secrets.token_hex(SECRET_BYTES)}"
        with self._db.session() as session:
            row = ApiKey(
                tenant_id=tenant_id,
                name=name,
                prefix=prefix,
                key_sha256=_digest(key),
                scopes=" ".join(scopes),
                created_at=self._db.now(session),
                expires_at=expires_at,
            )
            session.add(row)
            session.flush()
            return key, _record(row)

    def create_default(self, name: str) -> str:
        """Make a key for the default tenant and return its text."""
        return self.create(Tenants(self._db).default(), name)[0]

    def verify(self, key: str) -> ApiKeyRecord:
        """Return the record of a valid key.

        Raises: Unauthorized, which never says why; TenantSuspended to holders of a valid key.
        """
        prefix = public_part(key)
        row = next(iter(self._db.rows(FOUND, wanted=prefix)), None)
        # An unknown prefix must take as long as a wrong secret.
        expected = _digest("") if row is None else row.key_sha256
        matches = hmac.compare_digest(expected, _digest(key))
        if row is None or not matches:
            raise Unauthorized(REFUSED)
        return admitted(row)

    def any(self) -> bool:
        """Return whether any key was ever made."""
        with self._db.reading() as session:
            return bool(session.scalar(select(func.count()).select_from(ApiKey)))

    def list(self, tenant_id: UUID) -> Sequence[ApiKeyRecord]:
        """Return a tenant's keys, oldest first."""
        keys = select(ApiKey).where(ApiKey.tenant_id == tenant_id).order_by(ApiKey.created_at)
        with self._db.reading() as session:
            return tuple(_record(row) for row in session.scalars(keys))

    def revoke(self, tenant_id: UUID, key_id: UUID) -> ApiKeyRecord:
        """Revoke a tenant's key, which is refused from the next request on; return its record.

        Raises: KeyNotFound.
        """
        own = (ApiKey.id == key_id, ApiKey.tenant_id == tenant_id)
        with self._db.session() as session:
            valid = update(ApiKey).where(*own, ApiKey.revoked_at.is_(None))
            session.execute(valid.values(revoked_at=self._db.now(session)))
            row = session.scalar(select(ApiKey).where(*own))
            if row is None:
                raise KeyNotFound("There is no such key.")
            return _record(row)


def admitted(row: Any) -> ApiKeyRecord:
    """Return the record of a key that was proven, if it may be used now.

    Args:
        row: the key's columns, and `suspended_at` of its tenant.
    Raises: Unauthorized if it is revoked or expired; TenantSuspended.
    """
    if row.revoked_at is not None:
        raise Unauthorized(REFUSED)
    if row.expires_at is not None and row.expires_at <= datetime.now(UTC):
        raise Unauthorized(REFUSED)
    if row.suspended_at is not None:
        raise TenantSuspended(SUSPENDED)
    return _record(row)


def public_part(key: str) -> str:
    """Return the part of a key's text that identifies it but is no secret; "" if it is no key."""
    parts = key.split("_")
    well_formed = len(key) <= MAX_CHARS and len(parts) == 3 and parts[0] == MARK
    return parts[1] if well_formed and parts[1].isalnum() else ""


def _record(row: Any) -> ApiKeyRecord:
    return record(ApiKeyRecord, row, scopes=tuple(map(Scope, row.scopes.split())))


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()
