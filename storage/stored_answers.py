"""Whole answers that are given again: to the same question about the same reading of a document.

What counts as the same is the caller's business: it hashes all that an answer follows from into a
key. Answers go with their document, and when their time is over.
"""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from sqlalchemy import Executable, bindparam, delete, func, or_, select

from storage.db.database import Database
from storage.db.document_lock import STILL_THERE
from storage.db.tables import StoredAnswer

EXPIRED_AT_ONCE = 1000
MOST_OF_A_TENANT = 10_000
# Made once, as each question looks for its answer before it waits for anything else.
FOUND = select(StoredAnswer.body, StoredAnswer.expires_at).where(
    StoredAnswer.tenant_id == bindparam("owner"), StoredAnswer.key == bindparam("wanted")
)


class StoredAnswers:
    """The stored answers of all tenants, each of which finds its own alone.

    Args:
        ttl_s: seconds for which an answer is kept; 0 for none to be stored.
        most: answers of one tenant that are kept, the newest ones.
    """

    def __init__(self, db: Database, ttl_s: float, most: int = MOST_OF_A_TENANT) -> None:
        self._db = db
        self._ttl = timedelta(seconds=ttl_s)
        self._most = most
        table = StoredAnswer.__table__
        added = db.insert(table).values({name: bindparam(name) for name in table.c.keys()})  # noqa: SIM118
        replaced = ("document_id", "body", "created_at", "expires_at")
        self._put: Executable = added.on_conflict_do_update(
            index_elements=["tenant_id", "key"],
            set_={name: getattr(added.excluded, name) for name in replaced},
        ).returning(table.c.id)

    @property
    def is_on(self) -> bool:
        """Whether answers are stored at all."""
        return self._ttl > timedelta(0)

    def find(self, tenant_id: UUID, key: str) -> str | None:
        """Return the answer of that key, in JSON; None if there is none.

        Its time is over by this machine's clock, as an API key's is: the database is not asked.
        """
        row = next(iter(self._db.rows(FOUND, owner=tenant_id, wanted=key)), None)
        if row is None or row.expires_at <= datetime.now(UTC):
            return None
        body: str = row.body
        return body

    def add(self, tenant_id: UUID, document_id: UUID, key: str, body: str) -> None:
        """Store an answer, in JSON; one that is there already takes its place.

        Args:
            key: a hash in hexadecimal digits.
        """
        with self._db.transaction() as transaction:
            # A document that was deleted meanwhile has no answers any more.
            if transaction.rows(STILL_THERE, document_id=document_id):
                now = transaction.now()
                transaction.rows(
                    self._put,
                    id=uuid4(),
                    tenant_id=tenant_id,
                    document_id=document_id,
                    key=key,
                    body=body,
                    created_at=now,
                    expires_at=now + self._ttl,
                )

    def delete_expired(self, limit: int = EXPIRED_AT_ONCE) -> int:
        """Delete answers whose time is over, or of which a tenant has too many.

        Args:
            limit: of the answers that are deleted at once.
        Returns: how many were deleted.
        """
        newest_first = func.row_number().over(
            partition_by=StoredAnswer.tenant_id, order_by=StoredAnswer.created_at.desc()
        )
        ranked = select(StoredAnswer.id, newest_first.label("rank")).subquery()
        with self._db.session() as session:
            over = select(StoredAnswer.id).where(
                or_(
                    StoredAnswer.expires_at <= self._db.now(session),
                    StoredAnswer.id.in_(select(ranked.c.id).where(ranked.c.rank > self._most)),
                )
            )
            ids = list(session.scalars(over.limit(limit)))
            session.execute(delete(StoredAnswer).where(StoredAnswer.id.in_(ids)))
        return len(ids)
