"""Logins with an API key in a browser: the cookie holds a random token, SQL holds its hash.

A session is its key's: it may do what the key may, and it ends when the key does.
"""

import hashlib
import secrets
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import bindparam, delete, select

from common.errors import Unauthorized
from storage.db.database import Database
from storage.db.records import ApiKeyRecord
from storage.db.tables import ApiKey, BrowserSession, Tenant

TOKEN_BYTES = 32
MAX_TOKEN_CHARS = 100
MAX_AGE = timedelta(days=7)
EXPIRED_AT_ONCE = 1000
ENDED = "The session has ended; log in again."
FOUND = (
    select(
        *ApiKey.__table__.columns,
        Tenant.suspended_at,
        BrowserSession.expires_at.label("session_expires_at"),
    )
    .join(BrowserSession, BrowserSession.key_id == ApiKey.id)
    .join(Tenant, Tenant.id == ApiKey.tenant_id)
    .where(BrowserSession.token_sha256 == bindparam("wanted"))
)


class BrowserSessions:
    """The sessions of all keys.

    Args:
        admitted: returns the record of a key that may be used now, given its row; see
            `storage.keys.admitted`.
    """

    def __init__(self, db: Database, admitted: Callable[[Any], ApiKeyRecord]) -> None:
        self._db = db
        self._admitted = admitted

    def open(self, key_id: UUID) -> str:
        """Open a session of a key that was verified; return the token for its cookie."""
        token = secrets.token_urlsafe(TOKEN_BYTES)
        with self._db.session() as session:
            now = self._db.now(session)
            row = BrowserSession(
                key_id=key_id,
                token_sha256=_digest(token),
                created_at=now,
                expires_at=now + MAX_AGE,
            )
            session.add(row)
        return token

    def key_of(self, token: str) -> ApiKeyRecord:
        """Return the key of a session.

        Raises: Unauthorized if the session or its key has ended; TenantSuspended.
        """
        if len(token) > MAX_TOKEN_CHARS:
            raise Unauthorized(ENDED)
        row = next(iter(self._db.rows(FOUND, wanted=_digest(token))), None)
        if row is None or row.session_expires_at <= datetime.now(UTC):
            raise Unauthorized(ENDED)
        return self._admitted(row)

    def close(self, token: str) -> None:
        """End a session, if there is one."""
        with self._db.session() as session:
            session.execute(
                delete(BrowserSession).where(BrowserSession.token_sha256 == _digest(token))
            )

    def delete_expired(self, limit: int = EXPIRED_AT_ONCE) -> int:
        """Delete sessions whose time is over, at most so many; return how many were deleted."""
        with self._db.session() as session:
            over = select(BrowserSession.id).where(
                BrowserSession.expires_at <= self._db.now(session)
            )
            ids = list(session.scalars(over.limit(limit)))
            session.execute(delete(BrowserSession).where(BrowserSession.id.in_(ids)))
        return len(ids)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()
