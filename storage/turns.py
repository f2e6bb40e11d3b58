"""Turns of conversations: a question, its answer, and the turn that came before.

They are kept for a while after the last turn of their conversation, and go with their document.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from sqlalchemy import delete, select, update

from common.errors import AnswerNotFound
from storage.db.database import Database
from storage.db.records import record
from storage.db.tables import ConversationTurn

MOST_TURNS = 1000
EXPIRED_AT_ONCE = 1000
UNKNOWN = "There is no such earlier answer, or it is no longer kept; send the turns along."


@dataclass(frozen=True)
class TurnRecord:
    """A turn of a conversation.

    Attributes:
        document_id: the document that it is about; None for a conversation without one.
        previous_id: the turn before; None for the first one.
    """

    id: UUID
    document_id: UUID | None
    previous_id: UUID | None
    question: str
    answer: str


@dataclass(frozen=True)
class ShownTurn:
    """A turn as people look at it again.

    Attributes:
        body: the whole answer in JSON; None if it was not kept.
    """

    id: UUID
    previous_id: UUID | None
    question: str
    answer: str
    body: str | None
    created_at: datetime


class Turns:
    """The turns of all tenants. Another tenant's turn is treated as one that does not exist.

    Args:
        ttl_s: seconds for which a conversation is kept after its last turn.
    """

    def __init__(self, db: Database, ttl_s: float) -> None:
        self._db = db
        self._ttl = timedelta(seconds=ttl_s)

    def add(
        self,
        tenant_id: UUID,
        document_id: UUID | None,
        question: str,
        answer: str,
        previous_id: UUID | None = None,
        *,
        turn_id: UUID | None = None,
        body: str | None = None,
    ) -> UUID:
        """Store a turn and keep the ones before it as long; return its id.

        Args:
            turn_id: the id that it gets; None for a new one.
            body: the whole answer in JSON, to be shown again.
        Raises: AnswerNotFound if the turn before is not there.
        """
        earlier = () if previous_id is None else self.chain(tenant_id, previous_id)
        with self._db.session() as session:
            now = self._db.now(session)
            row = ConversationTurn(
                id=turn_id or uuid4(),
                tenant_id=tenant_id,
                document_id=document_id,
                previous_id=previous_id,
                question=question,
                answer=answer,
                body=body,
                created_at=now,
                expires_at=now + self._ttl,
            )
            session.add(row)
            ids = [turn.id for turn in earlier]
            kept = update(ConversationTurn).where(ConversationTurn.id.in_(ids))
            session.execute(kept.values(expires_at=now + self._ttl))
            return row.id

    def chain(self, tenant_id: UUID, turn_id: UUID) -> tuple[TurnRecord, ...]:
        """Return a turn and all before it, oldest first.

        Another tenant's turn is not even read, so that it takes no longer than one that is missing.

        Raises: AnswerNotFound if any of them is not there.
        """
        found: list[TurnRecord] = []
        wanted: UUID | None = turn_id
        with self._db.reading() as session:
            now = self._db.now(session)
            while wanted is not None and len(found) < MOST_TURNS:
                row = session.scalar(
                    select(ConversationTurn).where(
                        ConversationTurn.id == wanted,
                        ConversationTurn.tenant_id == tenant_id,
                        ConversationTurn.expires_at > now,
                    )
                )
                if row is None:
                    raise AnswerNotFound(UNKNOWN)
                found.append(
                    TurnRecord(row.id, row.document_id, row.previous_id, row.question, row.answer)
                )
                wanted = row.previous_id
        return tuple(reversed(found))

    def about(self, tenant_id: UUID, document_id: UUID, limit: int) -> tuple[ShownTurn, ...]:
        """Return the latest `limit` turns about a document, newest first, with whole answers."""
        own = (
            ConversationTurn.tenant_id == tenant_id,
            ConversationTurn.document_id == document_id,
        )
        newest_first = ConversationTurn.created_at.desc(), ConversationTurn.id.desc()
        with self._db.reading() as session:
            kept = (*own, ConversationTurn.expires_at > self._db.now(session))
            rows = session.scalars(
                select(ConversationTurn).where(*kept).order_by(*newest_first).limit(limit)
            )
            return tuple(record(ShownTurn, row) for row in rows)

    def delete_expired(self, limit: int = EXPIRED_AT_ONCE) -> int:
        """Delete turns whose time is over, at most so many; return how many were deleted."""
        with self._db.session() as session:
            over = select(ConversationTurn.id).where(
                ConversationTurn.expires_at <= self._db.now(session)
            )
            ids = list(session.scalars(over.limit(limit)))
            session.execute(delete(ConversationTurn).where(ConversationTurn.id.in_(ids)))
        return len(ids)
