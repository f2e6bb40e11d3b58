"""The typed errors that errors of the database drivers stand for."""

import sqlite3

import psycopg

from common.errors import Busy, DatabaseUnavailable, LecternError, StorageFull
from storage.files import STORAGE_FULL

BUSY = "Another writer holds the database; try again in a moment."
UNAVAILABLE = "The database does not answer; try again in a moment."
PRIMARY_CODE = 0xFF  # the low byte of an extended error code of SQLite is its primary code


def typed_error(error: BaseException, *, is_lost: bool) -> LecternError | None:
    """Return the typed error for a failed statement; None if the statement itself is wrong.

    Args:
        error: what the driver raised.
        is_lost: whether the connection is gone.
    """
    if isinstance(error, sqlite3.Error):
        return _from_sqlite(error)
    if isinstance(error, psycopg.Error):
        return _from_postgresql(error, lost=is_lost)
    return None


def _from_sqlite(error: sqlite3.Error) -> LecternError | None:
    code = getattr(error, "sqlite_errorcode", 0) & PRIMARY_CODE
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Busy(BUSY)
    if code == sqlite3.SQLITE_FULL:
        return StorageFull(STORAGE_FULL)
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY):
        return DatabaseUnavailable(UNAVAILABLE)
    return None


def _from_postgresql(error: psycopg.Error, *, lost: bool) -> LecternError | None:
    state = error.sqlstate or ""
    if state == "53100":  # disk_full
        return StorageFull(STORAGE_FULL)
    if state in ("55P03", "57014", "40001", "40P01"):  # lock, time-out, serialization, deadlock
        return Busy(BUSY)
    if lost or isinstance(error, psycopg.InterfaceError) or state[:2] in ("08", "53", "57"):
        return DatabaseUnavailable(UNAVAILABLE)
    if isinstance(error, psycopg.OperationalError) and not state:  # no answer from a server
        return DatabaseUnavailable(UNAVAILABLE)
    return None
