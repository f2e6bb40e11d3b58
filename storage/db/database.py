"""The SQL database: connections, transactions, migrations and typed errors."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, cast

import psycopg
import structlog
from sqlalchemy import (
    Connection,
    Engine,
    Executable,
    event,
    make_url,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.sql import func

from common.errors import DatabaseUnavailable, Permanent
from storage.db import migrate
from storage.db.dialects import postgresql, sqlite
from storage.db.errors import typed_error
from storage.db.statement import Statement

KEPT_WHAT_WAS_DELETED = ("0001", "0002")  # revisions without secure_delete
BEGIN = "lectern_begin"  # name of our own execution option
CLOCK = select(func.clock_timestamp().label("moment"))  # PostgreSQL's


class Database:
    """A SQLite file or a PostgreSQL database, shared by all threads of a process.

    Args:
        url: SQLAlchemy URL, `sqlite:///path` or `postgresql+psycopg://user@host/name`.
        wait_s: seconds that a statement waits for a lock or for the server; by default as many
            as suit the kind of database.
    """

    def __init__(self, url: str, wait_s: float | None = None) -> None:
        self._url = make_url(url)
        self._is_sqlite = self._url.get_backend_name() == "sqlite"
        dialect = sqlite if self._is_sqlite else postgresql
        self._engine: Engine = dialect.make_engine(self._url, wait_s or dialect.WAIT_S)
        event.listen(self._engine, "begin", _begin)
        # SQLite cannot upgrade a transaction that reads to one that writes while another one
        # writes, so a transaction says at its start whether it may write.
        self._writing = sessionmaker(
            self._engine.execution_options(**{BEGIN: "BEGIN IMMEDIATE"}), expire_on_commit=False
        )
        self._relaxed_engine: Engine = dialect.make_engine(
            self._url, wait_s or dialect.WAIT_S, is_relaxed=True
        )
        event.listen(self._relaxed_engine, "begin", _begin)
        relaxed = self._relaxed_engine.execution_options(**{BEGIN: "BEGIN IMMEDIATE"})
        self._relaxed = sessionmaker(relaxed, expire_on_commit=False)
        reading = self._engine.execution_options(**{BEGIN: "BEGIN"})
        self._reading = sessionmaker(reading, expire_on_commit=False)
        self._statements: dict[Executable, Statement] = {}

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Open a transaction that may write; it commits at the end, and rolls back on an exception.

        Raises: DatabaseUnavailable, Busy, StorageFull.
        """
        with _typed_errors(), self._writing.begin() as session:
            yield session

    @contextmanager
    def relaxed_session(self) -> Iterator[Session]:
        """Open a transaction that may write, and that does not wait until the disk has it.

        It survives the end of the process, but may be lost when the machine loses power.

        Raises: DatabaseUnavailable, Busy, StorageFull.
        """
        with _typed_errors(), self._relaxed.begin() as session:
            yield session

    def write_relaxed(self, statement: Executable, **values: Any) -> list[Any]:
        """Execute one statement as `relaxed_session` does, with as little around it as can be.

        Args:
            statement, values: as for `rows`.
        Returns: the rows that it returns.
        Raises: DatabaseUnavailable, Busy, StorageFull.
        """
        return self._execute(self._relaxed_engine, statement, values)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Open a transaction that only reads, which need not wait for writers.

        Raises: DatabaseUnavailable, Busy.
        """
        with _typed_errors(), self._reading.begin() as session:
            yield session

    def rows(self, statement: Executable, **values: Any) -> list[Any]:
        """Return the rows of a query, with as little around it as can be.

        Args:
            statement: one that is made once, with `bindparam` in the place of values; what it
                compiles to is kept as long as the database is.
            values: of the parameters.
        Raises: DatabaseUnavailable, Busy.
        """
        return self._execute(self._engine, statement, values)

    @contextmanager
    def transaction(self) -> Iterator["StatementTransaction"]:
        """Open a transaction as `session` does, for statements that are made once.

        Raises: DatabaseUnavailable, Busy, StorageFull.
        """
        with self._driver_connection(self._engine) as connection:
            if self._is_sqlite:
                connection.execute("BEGIN IMMEDIATE")
            try:
                yield StatementTransaction(self, connection)
                connection.commit()
            except BaseException:
                connection.rollback()
                raise

    def _execute(self, engine: Engine, statement: Executable, values: dict[str, Any]) -> list[Any]:
        """Execute one statement in a transaction of its own, by the driver itself."""
        with self._driver_connection(engine) as connection:
            if self._is_sqlite:  # whose connections begin no transactions by themselves
                return self._compiled(statement).execute(connection, values)
            connection.autocommit = True
            try:
                return self._compiled(statement).execute(connection, values)
            finally:
                if not connection.closed:
                    connection.autocommit = False

    def _compiled(self, statement: Executable) -> Statement:
        compiled = self._statements.get(statement)
        if compiled is None:
            compiled = self._statements[statement] = Statement(statement, self._engine)
        return compiled

    @contextmanager
    def _driver_connection(self, engine: Engine) -> Iterator[Any]:
        """Have a connection of the driver, whose errors are raised as typed ones where known."""
        with _typed_errors():
            pooled = engine.raw_connection()
        connection, is_lost = pooled.driver_connection, False
        try:
            yield connection
        except (sqlite3.Error, psycopg.Error) as error:
            is_lost = engine.dialect.is_disconnect(error, connection, None)  # type: ignore[arg-type]
            known = typed_error(error, is_lost=is_lost)
            if known is None:
                raise
            raise known from error
        finally:
            if is_lost:
                pooled.invalidate()
            pooled.close()

    def now(self, session: Session) -> datetime:
        """Return the present moment by the clock that all workers share.

        Returns: an aware datetime in UTC, by the clock of the database server; SQLite has no
            server, so there it is the clock of this machine.
        """
        if self._is_sqlite:
            return datetime.now(UTC)
        moment: datetime = session.execute(CLOCK).scalar_one()
        return moment.astimezone(UTC)

    def insert(self, table: Any) -> Any:
        """Return an INSERT that can say what happens if the row exists, which is not in SQL."""
        return sqlite_insert(table) if self._is_sqlite else postgresql_insert(table)

    def migrate(self) -> None:
        """Migrate the schema to the newest revision; several processes may do so at once.

        Raises: Permanent if the schema is newer than this program.
        """
        dialect = sqlite if self._is_sqlite else postgresql
        with _typed_errors():
            before = migrate.upgrade(dialect.make_migration_engine(self._url))
        if self._is_sqlite and before in KEPT_WHAT_WAS_DELETED:
            try:
                sqlite.rewrite(self._url)
            except sqlite3.Error as error:  # others use it, or the disk has no room for a copy
                log = structlog.get_logger("lectern.storage")
                log.warning("old deletions not overwritten yet", reason=type(error).__name__)

    def has_schema(self) -> bool:
        """Return whether the schema is there; nothing is made or migrated.

        Raises: DatabaseUnavailable; Permanent if it is of another version of this program.
        """
        with self.reading() as session:
            revision = migrate.revision_of(session.connection())
        if revision is None:
            return False
        if revision != migrate.revisions()[0]:
            raise Permanent(
                "The database is of another version of Lectern; a start of this version's server "
                "brings an older one up to date."
            )
        return True

    def erase_deleted(self) -> bool:
        """Overwrite what was deleted, as far as the database does not do so by itself.

        SQLite's log is emptied. PostgreSQL keeps deleted rows until it vacuums, by itself or as
        its operator says.

        Returns: False if others use the file just now; it must be called again then.
        """
        if not self._is_sqlite:
            return True
        try:
            return sqlite.erase_log(self._url)
        except sqlite3.Error:  # locked, or the disk is full
            return False

    def check(self) -> None:
        """Return if the database answers. Raises: DatabaseUnavailable, Busy."""
        with self.reading() as session:
            session.execute(text("SELECT 1"))

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()
        self._relaxed_engine.dispose()


class StatementTransaction:
    """A transaction in which statements that are made once are executed by the driver itself."""

    def __init__(self, db: Database, connection: Any) -> None:
        self._db, self._connection = db, connection

    def rows(self, statement: Executable, **values: Any) -> list[Any]:
        """Execute a statement; arguments and result as of `Database.rows`."""
        return self._db._compiled(statement).execute(self._connection, values)

    def now(self) -> datetime:
        """Return the present moment, as `Database.now`."""
        if self._db._is_sqlite:
            return datetime.now(UTC)
        [(moment,)] = self.rows(CLOCK)
        return cast(datetime, moment).astimezone(UTC)


def _begin(connection: Connection) -> None:
    begin: Any = connection.get_execution_options().get(BEGIN)
    if begin is not None and connection.dialect.name == "sqlite":
        connection.exec_driver_sql(begin)


@contextmanager
def _typed_errors() -> Iterator[None]:
    try:
        yield
    except PoolTimeout as error:
        raise DatabaseUnavailable("All connections to the database are in use.") from error
    except DBAPIError as error:
        cause = error.orig
        known = cause and typed_error(cause, is_lost=error.connection_invalidated)
        if known is None:
            raise
        raise known from error
