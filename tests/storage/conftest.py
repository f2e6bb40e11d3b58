"""Storage on both databases: every test that asks for `db` runs on each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.database import Database
from tests.services import postgresql_schema


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'test.sqlite3'}"
        return
    with postgresql_schema() as fresh:
        yield fresh


@pytest.fixture
def db(url: str) -> Iterator[Database]:
    """A migrated database."""
    database = Database(url)
    database.migrate()
    yield database
    database.close()
