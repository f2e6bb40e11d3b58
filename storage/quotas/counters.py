"""Where it is counted what was used in a span of time: in SQL, or in Redis where there is one."""

import time
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

import structlog
from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry
from sqlalchemy import Executable, bindparam, delete, select, update
from sqlalchemy.orm import Session

from storage.db.database import Database
from storage.db.tables import Usage
from storage.quotas.resources import Resource

TIMEOUT_S = 0.5
BACKOFF_S = 5.0
KEPT_S = 2 * 24 * 3600
LARGEST = (1 << 63) - 1  # number of a column
TAKE = """
local used = tonumber(redis.call('GET', KEYS[1]) or '0')
local granted = math.min(tonumber(ARGV[2]), tonumber(ARGV[3]) - used)
if granted < tonumber(ARGV[1]) then return {0, used} end
used = redis.call('INCRBY', KEYS[1], granted)
redis.call('EXPIRE', KEYS[1], ARGV[4])
return {granted, used}
"""


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


class RedisCounter:
    """Counts requests in Redis, and in SQL while Redis does not answer.

    What Redis has counted in the present minute is unknown to SQL, and the other way round, so at
    every change between them a limit may be used up once more. Days are counted in SQL alone.

    Args:
        url: of the Redis server.
        channel: begins the names of all keys.
    """

    def __init__(self, url: str, sql: SqlCounter, channel: str = "lectern") -> None:
        self._sql = sql
        self._channel = channel
        self._retry_at_s = 0.0
        self._redis: Any = Redis.from_url(
            url,
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
        )
        self._take: Any = self._redis.register_script(TAKE)

    def take(self, window: Window, least: int, wanted: int, limit: int) -> tuple[int, int]:
        """See `Counter.take`."""
        if self._is_for_redis(window):
            seconds = 2 * (window.resource.window_s or 1)
            try:
                granted, used = self._take([self._name(window)], [least, wanted, limit, seconds])
                return int(granted), int(used)
            except (RedisError, OSError) as error:
                self._note_failure(error)
        return self._sql.take(window, least, wanted, limit)

    def add(self, window: Window, amount: int) -> None:
        """See `Counter.add`."""
        if self._is_for_redis(window):
            try:
                self._redis.incrby(self._name(window), amount)
                self._redis.expire(self._name(window), 2 * (window.resource.window_s or 1))
                return
            except (RedisError, OSError) as error:
                self._note_failure(error)
        self._sql.add(window, amount)

    def used(self, window: Window) -> int:
        """See `Counter.used`."""
        if self._is_for_redis(window):
            try:
                return int(self._redis.get(self._name(window)) or 0)
            except (RedisError, OSError) as error:
                self._note_failure(error)
        return self._sql.used(window)

    def close(self) -> None:
        """Close all connections."""
        self._redis.close()

    def _is_for_redis(self, window: Window) -> bool:
        return window.resource is Resource.REQUESTS and time.monotonic() >= self._retry_at_s

    def _name(self, window: Window) -> str:
        return f"{self._channel}:used:{window.owner_id}:{window.resource}:{window.start}"

    def _note_failure(self, error: Exception) -> None:
        self._retry_at_s = time.monotonic() + BACKOFF_S
        log = structlog.get_logger("lectern.storage")
        log.warning("requests are counted in SQL for a while", reason=type(error).__name__)


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
