"""Whole answers that are given again: to the same question about the same reading of a document.

What counts as the same is the caller's business: it hashes all that an answer follows from into a
key. Answers go with their document, and when their time is over.
"""

from datetime import timedelta
from uuid import UUID

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError

from storage.db.database import Database
from storage.db.tables import StoredAnswer

EXPIRED_AT_ONCE = 1000


class StoredAnswers:
    """The stored answers of all tenants, each of which finds its own alone.

    Args:
        ttl_s: seconds for which an answer is kept.
    """

    def __init__(self, db: Database, ttl_s: float) -> None:
        self._db = db
        self._ttl = timedelta(seconds=ttl_s)

    def find(self, tenant_id: UUID, key: str) -> str | None:
        """Return the answer of that key, in JSON; None if there is none."""
        with self._db.reading() as session:
            return session.scalar(
                select(StoredAnswer.body).where(
                    StoredAnswer.tenant_id == tenant_id,
                    StoredAnswer.key == key,
                    StoredAnswer.expires_at > self._db.now(session),
                )
            )

    def add(self, tenant_id: UUID, document_id: UUID, key: str, body: str) -> None:
        """Store an answer, in JSON; one that is there already takes its place.

        Args:
            key: a hash in hexadecimal digits.
        """
        try:
            with self._db.session() as session:
                now = self._db.now(session)
                own = (StoredAnswer.tenant_id == tenant_id, StoredAnswer.key == key)
                session.execute(delete(StoredAnswer).where(*own))
                session.add(
                    StoredAnswer(
                        tenant_id=tenant_id,
                        document_id=document_id,
                        key=key,
                        body=body,
                        created_at=now,
                        expires_at=now + self._ttl,
                    )
                )
        except IntegrityError:  # the document was deleted, or another answer was stored meanwhile
            return

    def delete_expired(self, limit: int = EXPIRED_AT_ONCE) -> int:
        """Delete answers whose time is over, at most so many; return how many were deleted."""
        with self._db.session() as session:
            over = select(StoredAnswer.id).where(StoredAnswer.expires_at <= self._db.now(session))
            ids = list(session.scalars(over.limit(limit)))
            session.execute(delete(StoredAnswer).where(StoredAnswer.id.in_(ids)))
        return len(ids)
