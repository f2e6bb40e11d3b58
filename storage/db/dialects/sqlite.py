"""SQLite: one file with a write-ahead log, synced to the disk at every commit.

What is deleted is overwritten with zeros in the file (`secure_delete`); the log, which still has
the pages from before, is emptied by `erase_log`.
"""

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, NullPool, create_engine, event

WAIT_S = 5.0
MIGRATION_WAIT_S = 30.0
ERASE_WAIT_S = 0.25


def make_engine(url: URL, wait_s: float, *, is_relaxed: bool = False) -> Engine:
    """Make an engine whose connections enforce foreign keys and sync the log at every commit.

    Args:
        wait_s: seconds that a statement waits for a lock.
        is_relaxed: whether commits return before the log is synced.
    """

    synchronous = "synchronous=NORMAL" if is_relaxed else "synchronous=FULL"

    def connect(connection: sqlite3.Connection, _: Any) -> None:
        connection.isolation_level = None  # the driver must not begin transactions, since we do
        _set(connection, f"busy_timeout={1000 * wait_s:.0f}", synchronous, "foreign_keys=ON")
        _set(connection, "secure_delete=ON")

    engine = create_engine(url, pool_timeout=wait_s)
    event.listen(engine, "connect", connect)
    return engine


def make_migration_engine(url: URL) -> Engine:
    """Make an engine for migrations, with foreign keys off because tables may be rebuilt."""
    if url.database:
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(url, poolclass=NullPool)
    event.listen(engine, "connect", _connect_to_migrate)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def erase_log(url: URL) -> bool:
    """Bring the write-ahead log into the file and cut it to nothing.

    Returns: False if somebody reads or writes just now, so that the log had to stay.
    """
    with closing(sqlite3.connect(str(url.database), timeout=ERASE_WAIT_S)) as connection:
        (is_busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not is_busy


def rewrite(url: URL) -> None:
    """Write the whole file anew, without what was deleted while it was not overwritten."""
    with closing(sqlite3.connect(str(url.database), timeout=MIGRATION_WAIT_S)) as connection:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _connect_to_migrate(connection: sqlite3.Connection, _: Any) -> None:
    connection.isolation_level = None
    _set(connection, f"busy_timeout={1000 * MIGRATION_WAIT_S:.0f}", "synchronous=FULL")
    _set(connection, "secure_delete=ON")
    _use_write_ahead_log(connection)


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch the file to a write-ahead log, again and again while other connections prevent it."""
    deadline_s = time.monotonic() + MIGRATION_WAIT_S
    while True:
        try:
            _set(connection, "journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline_s:
                raise
            time.sleep(0.02)


def _set(connection: sqlite3.Connection, *pragmas: str) -> None:
    for pragma in pragmas:
        connection.execute(f"PRAGMA {pragma}").close()
