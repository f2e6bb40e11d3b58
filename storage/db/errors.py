"""Which typed error a driver's or the system's error stands for."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from sqlalchemy.exc import DBAPIError

from common.errors import Busy, DatabaseUnavailable, LecternError, StorageFull

FULL = "No space is left on the storage device; free some, and it goes on by itself."
BUSY = "Another writer holds the database; try again in a moment."
AWAY = "The database does not answer; try again in a moment."
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
PRIMARY = 0xFF  # SQLite's extended codes carry the primary one in the low byte


def typed(error: DBAPIError) -> LecternError | None:
    """The typed error for a failed statement; None if it is our own fault (a bad statement)."""
    cause = error.orig
    if isinstance(cause, sqlite3.Error):
        return _from_sqlite(cause)
    if isinstance(cause, psycopg.Error):
        return _from_postgresql(cause, lost=error.connection_invalidated)
    return None


@contextmanager
def disk_errors() -> Iterator[None]:
    """Turn a full device into StorageFull."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_SPACE:
            raise StorageFull(FULL) from error
        raise


def _from_sqlite(error: sqlite3.Error) -> LecternError | None:
    code = getattr(error, "sqlite_errorcode", 0) & PRIMARY
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Busy(BUSY)
    if code == sqlite3.SQLITE_FULL:
        return StorageFull(FULL)
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY):
        return DatabaseUnavailable(AWAY)
    return None


def _from_postgresql(error: psycopg.Error, *, lost: bool) -> LecternError | None:
    state = error.sqlstate or ""
    if state == "53100":  # disk_full
        return StorageFull(FULL)
    if state in ("55P03", "57014", "40001", "40P01"):  # lock, time-out, serialization, deadlock
        return Busy(BUSY)
    if lost or isinstance(error, psycopg.InterfaceError) or state[:2] in ("08", "53", "57"):
        return DatabaseUnavailable(AWAY)
    if isinstance(error, psycopg.OperationalError) and not state:  # no answer from a server
        return DatabaseUnavailable(AWAY)
    return None
