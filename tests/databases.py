"""Migrated databases for tests: migrated once a run, then copied or emptied, which is quicker."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from storage.db.database import Database
from storage.db.tables import Base
from tests.services import postgresql_schema


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a migrated SQLite database without rows."""
    path = tmp_path_factory.mktemp("migrated") / "lectern.sqlite3"
    database = Database(f"sqlite:///{path}")
    database.migrate()
    database.close()
    return path.read_bytes()


@pytest.fixture(scope="session")
def migrated_postgresql() -> Iterator[str]:
    """The URL of a migrated schema; `emptied` before each use."""
    with postgresql_schema() as url:
        database = Database(url)
        database.migrate()
        database.close()
        yield url


@contextmanager
def emptied(url: str) -> Iterator[str]:
    """The URL of a migrated PostgreSQL schema, whose rows are deleted afterwards."""
    yield url
    tables = reversed(Base.metadata.sorted_tables)
    deletions = "; ".join(f'DELETE FROM "{table.name}"' for table in tables)
    with psycopg.connect(url.replace("+psycopg", ""), connect_timeout=3) as connection:
        connection.execute(f"SET lock_timeout = '5s'; {deletions}")


def copied(template: bytes, path: Path) -> str:
    """Write the file of a migrated SQLite database to `path`, and return its URL."""
    path.write_bytes(template)
    return f"sqlite:///{path}"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a migrated database."""
    if request.param == "sqlite":
        template: bytes = request.getfixturevalue("migrated_sqlite")
        yield copied(template, tmp_path / "test.sqlite3")
        return
    with emptied(request.getfixturevalue("migrated_postgresql")) as migrated:
        yield migrated
