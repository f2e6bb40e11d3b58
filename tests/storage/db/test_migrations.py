"""The schema that migrations build is the schema that the program uses."""

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Engine, create_engine, inspect, make_url, text

from common.errors import Permanent
from common.scopes import Scope
from storage.db import migrate
from storage.db.database import Database
from storage.db.dialects import postgresql, sqlite
from storage.db.tables import Base
from storage.keys import ApiKeys
from storage.tenants import Tenants
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
    """A database that was migrated for this test, which may migrate it otherwise."""
    database = Database(url)
    database.migrate()
    yield database
    database.close()


def engine_of(url: str) -> Engine:
    if url.startswith("sqlite"):
        return sqlite.make_migration_engine(make_url(url))
    return postgresql.make_migration_engine(make_url(url))


def plain(value: Any) -> str:
    """A description without the addresses of objects."""
    if isinstance(value, dict):
        return str({key: plain(value[key]) for key in sorted(value)})
    return str(value)


def schema_of(engine: Engine) -> dict[str, Any]:
    """Everything that a database knows about its tables, in an order of its own."""
    inspector = inspect(engine)
    looks: dict[str, Callable[[str], Any]] = {
        "columns": inspector.get_columns,
        "primary": inspector.get_pk_constraint,
        "foreign": inspector.get_foreign_keys,
        "unique": inspector.get_unique_constraints,
        "check": inspector.get_check_constraints,
        "indexes": inspector.get_indexes,
    }
    tables = set(inspector.get_table_names()) - {"alembic_version"}
    return {
        f"{table}.{kind}": sorted(map(plain, found)) if isinstance(found, list) else plain(found)
        for table in sorted(tables)
        for kind, look in looks.items()
        for found in [look(table)]
    }


def test_the_migrated_schema_equals_the_tables_on_sqlite(tmp_path: Path) -> None:
    migrated, made = (engine_of(f"sqlite:///{tmp_path / name}") for name in ("a", "b"))
    migrate.upgrade(migrated)
    Base.metadata.create_all(made)
    assert schema_of(migrated) == schema_of(made)
    assert len(schema_of(made)) == 6 * len(Base.metadata.tables)


def test_the_migrated_schema_equals_the_tables_on_postgresql() -> None:
    with postgresql_schema() as one, postgresql_schema() as two:
        migrated, made = engine_of(one), engine_of(two)
        migrate.upgrade(migrated)
        Base.metadata.create_all(made)
        assert schema_of(migrated) == schema_of(made)
        assert len(schema_of(made)) == 6 * len(Base.metadata.tables)


def test_autogenerate_finds_nothing_to_do(db: Database, url: str) -> None:
    with engine_of(url).connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def test_a_schema_that_differs_is_noticed(tmp_path: Path) -> None:
    made, other = (engine_of(f"sqlite:///{tmp_path / name}") for name in ("a", "b"))
    Base.metadata.create_all(made)
    Base.metadata.create_all(other)
    with other.begin() as connection:
        connection.execute(text("DROP INDEX uq_jobs_active"))
    assert schema_of(made) != schema_of(other)


def test_every_revision_can_be_taken_back_and_applied_again(db: Database, url: str) -> None:
    migrate.downgrade(engine_of(url))
    assert set(inspect(engine_of(url)).get_table_names()) <= {"alembic_version"}
    db.migrate()
    with engine_of(url).connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM documents")).scalar_one() == 0


def test_processes_that_start_together_migrate_once(url: str) -> None:
    databases = [Database(url) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(Database.migrate, databases))
    for database in databases:
        database.check()
        database.close()


def test_a_database_of_a_newer_program_is_left_alone(db: Database, url: str) -> None:
    with db.session() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(Permanent, match="newer version"):
        db.migrate()


def test_rebuilding_a_table_on_sqlite_keeps_the_rows_that_refer_to_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'test.sqlite3'}"
    Database(url).migrate()
    with sqlite3.connect(tmp_path / "test.sqlite3") as raw:
        raw.execute("INSERT INTO tenants (id, name, created_at) VALUES ('t', 'one', '2026-01-01')")
        raw.execute(
            "INSERT INTO api_keys (id, tenant_id, name, prefix, key_sha256, created_at)"
            " VALUES ('k', 't', 'name', 'prefix', 'hash', '2026-01-01')"
        )
    raw.close()
    with engine_of(url).begin() as connection:
        operations = Operations(MigrationContext.configure(connection))
        with operations.batch_alter_table("tenants", recreate="always") as batch:
            batch.alter_column("name", new_column_name="label")
    with create_engine(url).connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM api_keys")).scalar_one() == 1


def test_revisions_are_known() -> None:
    assert migrate.revisions()[-1] == "0001"


def test_a_key_from_before_there_were_scopes_may_do_what_it_could(url: str) -> None:
    migrate.upgrade(engine_of(url), "0002")
    key, tenant = uuid4(), uuid4()
    with engine_of(url).begin() as connection:
        hexes = {"tenant": tenant.hex, "key": key.hex}
        moment = "2026-01-01 00:00:00+00:00"
        for statement in (
            f"INSERT INTO tenants (id, name, created_at) VALUES (:tenant, 'default', '{moment}')",
            "INSERT INTO api_keys (id, tenant_id, name, prefix, key_sha256, created_at)"
            f" VALUES (:key, :tenant, 'laptop', 'ab', 'hash', '{moment}')",
        ):
            needed = {name: value for name, value in hexes.items() if f":{name}" in statement}
            connection.execute(text(statement), needed)
    db = Database(url)
    db.migrate()
    (record,) = ApiKeys(db).list(tenant)
    assert record.scopes == (Scope.READ, Scope.ASK, Scope.WRITE)
    assert Tenants(db).get("default").suspended_at is None
    db.close()
