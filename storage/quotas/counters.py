"""Where it is counted what was used in a span of time, and how SQL does."""

from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from sqlalchemy import Executable, bindparam, delete, select, update
from sqlalchemy.orm import Session

from storage.db.database import Database
from storage.db.tables import Usage
from storage.quotas.resources import Resource

KEPT_S = 2 * 24 * 3600
LARGEST = (1 << 63) - 1  # number of a column


@dataclass(frozen=True)
class Window:
    """A span of time in which an owner's use of a resource is counted.

    Attributes:
        owner_id: a tenant or a key.
        start: its first Unix second.
    """

    owner_id: UUID
    resource: Resource
    start: int


class Counter(Protocol):
    """Counts what is used in windows, for all processes together."""

    def take(self, window: Window, least: int, wanted: int, limit: int) -> tuple[int, int]:
        """Take between `least` and `wanted`, or nothing if the limit leaves less than `least`.

        Returns: how much was taken, and how much has been taken in the window by everybody.
        """

    def add(self, window: Window, amount: int) -> None:
        """Count what was used, or with a negative amount give back what was not."""

    def used(self, window: Window) -> int:
        """Return how much has been taken in a window."""


class SqlCounter:
    """Counts in a table. What it has granted is on the disk before anybody uses it."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._add_within = _add_within(db)

    def take(self, window: Window, least: int, wanted: int, limit: int) -> tuple[int, int]:
        """See `Counter.take`."""
        if window.resource is not Resource.REQUESTS:
            with self._db.session() as session:
                return self._take_rest(session, window, least, wanted, limit)
        # A minute is over before a machine that lost power is up again.
        if wanted <= limit:
            for (used,) in self._db.write_relaxed(
                self._add_within, **_values(window), amount=wanted, most=limit - wanted
            ):
                return wanted, used
        with self._db.relaxed_session() as session:
            return self._take_rest(session, window, least, wanted, limit)

    def add(self, window: Window, amount: int) -> None:
        """See `Counter.add`."""
        with self._db.transaction() as transaction:
            transaction.rows(self._add_within, **_values(window), amount=amount, most=LARGEST)

    def used(self, window: Window) -> int:
        """See `Counter.used`."""
        with self._db.reading() as session:
            return session.scalar(select(Usage.used).where(*_is(window))) or 0

    def prune(self, now_s: float) -> None:
        """Remove the rows of days that are over."""
        with self._db.session() as session:
            session.execute(delete(Usage).where(Usage.window_start < int(now_s) - KEPT_S))

    def _take_rest(
        self, session: Session, window: Window, least: int, wanted: int, limit: int
    ) -> tuple[int, int]:
        """Take as much as a limit leaves, or nothing if that is less than `least`."""
        self._make(session, window)
        row = select(Usage.used).where(*_is(window)).with_for_update()
        used = session.execute(row).scalar_one()
        granted = min(wanted, limit - used)
        if granted < max(1, least):
            return 0, used
        session.execute(update(Usage).where(*_is(window)).values(used=used + granted))
        return granted, used + granted

    def _make(self, session: Session, window: Window) -> None:
        insert = self._db.insert(Usage).values(
            owner_id=window.owner_id,
            resource=window.resource,
            window_start=window.start,
            used=0,
        )
        session.execute(insert.on_conflict_do_nothing())


def _add_within(db: Database) -> Executable:
    """Return the statement that adds an amount to a window that has at most so much already."""
    table = Usage.__table__
    insert = db.insert(table).values(
        owner_id=bindparam("owner_id"),
        resource=bindparam("resource"),
        window_start=bindparam("window_start"),
        used=bindparam("amount"),
    )
    added: Executable = insert.on_conflict_do_update(
        index_elements=["owner_id", "resource", "window_start"],
        set_={"used": table.c.used + bindparam("amount")},
        where=table.c.used <= bindparam("most"),
    ).returning(table.c.used)
    return added


def _values(window: Window) -> dict[str, Any]:
    """A window's parameters of `_add_within`."""
    return {
        "owner_id": window.owner_id,
        "resource": window.resource.value,
        "window_start": window.start,
    }


def _is(window: Window) -> tuple[Any, ...]:
    return (
        Usage.owner_id == window.owner_id,
        Usage.resource == window.resource,
        Usage.window_start == window.start,
    )
