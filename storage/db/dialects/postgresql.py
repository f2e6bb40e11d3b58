"""PostgreSQL through psycopg 3, where no wait is unbounded."""

import time
from typing import Any

import psycopg
from psycopg.abc import PQGen
from sqlalchemy import URL, Engine, NullPool, create_engine, event

WAIT_S = 2.5  # together with a connection attempt after it, an outage shows within 5 s
CONNECT_S = 2
IDLE_S = 300
# The server's own time limits are shares of the wait, because its errors say more than ours.
LOCK_SHARE, STATEMENT_SHARE = 0.75, 0.9


class BoundConnection(psycopg.Connection[Any]):
    """A connection that gives up when the server stops answering.

    The kernel of a server that hangs still acknowledges packets, so neither the driver nor TCP
    notices.

    Attributes:
        wait_s: seconds that a call waits for the server.
    """

    wait_s: float = WAIT_S

    def wait(self, gen: PQGen[Any], *arguments: Any, **named: Any) -> Any:
        """Wait as psycopg does, but only for about `wait_s`: the time is looked at now and then."""
        deadline_s = time.monotonic() + self.wait_s
        return super().wait(self._bounded(gen, deadline_s), *arguments, **named)

    def _bounded(self, gen: PQGen[Any], deadline_s: float) -> PQGen[Any]:
        try:
            state = next(gen)
            while True:
                ready = yield state
                if not ready and time.monotonic() > deadline_s:
                    self.pgconn.finish()
                    raise psycopg.OperationalError("the server stopped answering")
                state = gen.send(ready)
        except StopIteration as stop:
            return stop.value


def make_engine(url: URL, wait_s: float, *, is_relaxed: bool = False) -> Engine:
    """Make an engine that replaces broken connections and bounds every wait.

    Args:
        wait_s: seconds that a call waits for a lock, a connection or the server.
        is_relaxed: whether commits return before the log is synced.
    """

    def connect(_: Any, __: Any, arguments: Any, named: Any) -> psycopg.Connection[Any]:
        connection = BoundConnection.connect(*arguments, **named)
        connection.wait_s = wait_s
        return connection

    limits = (
        f"-c statement_timeout={1000 * STATEMENT_SHARE * wait_s:.0f} "
        f"-c lock_timeout={1000 * LOCK_SHARE * wait_s:.0f}"
    )
    if is_relaxed:
        limits += " -c synchronous_commit=off"
    options = f"{url.query.get('options', '')} {limits}".strip()
    engine = create_engine(
        url.difference_update_query(["options"]),
        connect_args={"connect_timeout": CONNECT_S, "options": options},
        pool_pre_ping=True,
        pool_recycle=IDLE_S,
        pool_size=2 if is_relaxed else 8,
        max_overflow=4 if is_relaxed else 16,
        pool_timeout=wait_s,
    )
    event.listen(engine, "do_connect", connect)
    return engine


def make_migration_engine(url: URL) -> Engine:
    """Make an engine for migrations, which may take as long as they need."""
    return create_engine(url, poolclass=NullPool, connect_args={"connect_timeout": CONNECT_S})
