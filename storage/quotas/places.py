"""Places of questions that are under way, where a tenant or key may only have so many at once."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.orm import Session

from storage.db.database import Database
from storage.db.records import ApiKeyRecord
from storage.db.tables import Process, QuestionPlace, Tenant
from storage.processes import SILENT_S
from storage.quotas.limits import Limit


class QuestionPlaces:
    """Rows of questions under way in all processes.

    A place is given back when its question ends. It is free as well when its process was killed
    (its heartbeat is twenty seconds old), or at last when the question must have ended.

    Args:
        process: name of this process, as `Processes` has it.
    """

    def __init__(self, db: Database, process: str) -> None:
        self._db = db
        self._process = process

    def take(self, caller: ApiKeyRecord, limits: tuple[Limit, ...], most_s: float) -> UUID | Limit:
        """Take a place, if all limits leave one.

        Args:
            most_s: seconds after which the question must have ended.
        Returns: the place's id; or the limit that leaves none.
        """
        with self._db.session() as session:
            lock_tenant(session, caller.tenant_id)
            now = self._db.now(session)
            for limit in limits:
                if (
                    self._count(session, limit.owner_id, now, is_of_key=limit.is_of_key)
                    >= limit.amount
                ):
                    return limit
            place_id = uuid4()
            session.add(
                QuestionPlace(
                    id=place_id,
                    tenant_id=caller.tenant_id,
                    key_id=caller.id,
                    process=self._process,
                    expires_at=now + timedelta(seconds=most_s),
                )
            )
            return place_id

    def give_back(self, place_id: UUID) -> None:
        """Free a place."""
        with self._db.session() as session:
            session.execute(delete(QuestionPlace).where(QuestionPlace.id == place_id))

    def count(self, owner_id: UUID, *, is_of_key: bool = False) -> int:
        """Return how many places an owner has."""
        with self._db.reading() as session:
            return self._count(session, owner_id, self._db.now(session), is_of_key=is_of_key)

    def prune(self) -> None:
        """Remove the rows of places that are free because their process was killed."""
        with self._db.session() as session:
            live = _is_live(self._db.now(session))
            session.execute(delete(QuestionPlace).where(~live))

    def _count(self, session: Session, owner_id: UUID, now: datetime, *, is_of_key: bool) -> int:
        column = QuestionPlace.key_id if is_of_key else QuestionPlace.tenant_id
        places = select(func.count()).select_from(QuestionPlace)
        return session.scalar(places.where(column == owner_id, _is_live(now))) or 0


def lock_tenant(session: Session, tenant_id: UUID) -> None:
    """Let others who count what this tenant has wait until the transaction ends."""
    row: Any = select(Tenant.id).where(Tenant.id == tenant_id)
    session.execute(row.with_for_update(key_share=True))  # SQLite has locked everything already


def _is_live(now: datetime) -> ColumnElement[bool]:
    silent = now - timedelta(seconds=SILENT_S)
    dead = select(Process.name).where(Process.heartbeat_at < silent)
    return (QuestionPlace.expires_at > now) & QuestionPlace.process.not_in(dead)
