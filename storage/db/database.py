"""The SQL database: connections, transactions, migrations, and errors with a type."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Engine, event, make_url, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.sql import func

from common.errors import DatabaseUnavailable
from storage.db import migrate
from storage.db.dialects import postgresql, sqlite
from storage.db.errors import typed

BEGIN = "lectern_begin"


class Database:
    """A SQLite file or a PostgreSQL database, shared by all threads of a process.

    Args:
        url: SQLAlchemy URL, `sqlite:///path` or `postgresql+psycopg://user@host/name`.
        wait_s: how long a statement waits for a lock or for the server, if not the usual time.
    """

    def __init__(self, url: str, wait_s: float | None = None) -> None:
        self._url = make_url(url)
        self._is_sqlite = self._url.get_backend_name() == "sqlite"
        dialect = sqlite if self._is_sqlite else postgresql
        self._engine: Engine = dialect.make_engine(self._url, wait_s or dialect.WAIT_S)
        event.listen(self._engine, "begin", _begin)
        # SQLite cannot turn a reader into a writer while another writes: say so at the start.
        self._writing = sessionmaker(
            self._engine.execution_options(**{BEGIN: "BEGIN IMMEDIATE"}), expire_on_commit=False
        )
        self._reading = sessionmaker(
            self._engine.execution_options(**{BEGIN: "BEGIN"}), expire_on_commit=False
        )

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A transaction that may write: commits at the end, rolls back on any exception.

        Raises: DatabaseUnavailable, Busy, StorageFull.
        """
        with _typed_errors(), self._writing.begin() as session:
            yield session

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A transaction that only reads, and so waits for no writer.

        Raises: DatabaseUnavailable, Busy.
        """
        with _typed_errors(), self._reading.begin() as session:
            yield session

    def now(self, session: Session) -> datetime:
        """The instant by the clock that all workers share: the database server's, if it has one."""
        if self._is_sqlite:
            return datetime.now(UTC)
        moment: datetime = session.execute(select(func.clock_timestamp())).scalar_one()
        return moment.astimezone(UTC)

    def migrate(self) -> None:
        """Bring the schema to the newest revision; several processes may call it at once.

        Raises: Permanent if the schema is newer than this program.
        """
        dialect = sqlite if self._is_sqlite else postgresql
        with _typed_errors():
            migrate.upgrade(dialect.make_migration_engine(self._url))

    def check(self) -> None:
        """Return if the database answers. Raises: DatabaseUnavailable, Busy."""
        with self.reading() as session:
            session.execute(text("SELECT 1"))

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


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
        known = typed(error)
        if known is None:
            raise
        raise known from error
