"""SQLite: one file with a write-ahead log, synced to the disk at every commit."""

import sqlite3
import time
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, NullPool, create_engine, event

WAIT_S = 5.0
MIGRATION_WAIT_S = 30.0


def make_engine(url: URL, wait_s: float) -> Engine:
    """Make an engine whose connections enforce foreign keys and sync the log at every commit.

    Args:
        wait_s: seconds that a statement waits for a lock.
    """

    def connect(connection: sqlite3.Connection, _: Any) -> None:
        connection.isolation_level = None  # the driver must not begin transactions, since we do
        _set(connection, f"busy_timeout={1000 * wait_s:.0f}", "synchronous=FULL", "foreign_keys=ON")

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


def _connect_to_migrate(connection: sqlite3.Connection, _: Any) -> None:
    connection.isolation_level = None
    _set(connection, f"busy_timeout={1000 * MIGRATION_WAIT_S:.0f}", "synchronous=FULL")
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
