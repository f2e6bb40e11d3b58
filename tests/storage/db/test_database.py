"""Databases fail in ways that callers can tell apart, and recover by themselves."""

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import Executable, bindparam, make_url, select, text
from sqlalchemy.exc import DBAPIError, IntegrityError

from common.errors import Busy, DatabaseUnavailable, StorageFull
from storage.db.database import Database
from storage.db.tables import Tenant
from tests.services import postgresql_schema
from tests.storage.relay import Relay


@pytest.fixture
def relayed() -> Iterator[tuple[Database, Relay]]:
    """A PostgreSQL database behind a relay, with short waits."""
    with postgresql_schema() as url:
        parts = make_url(url)
        with Relay(parts.host or "", parts.port or 5432) as relay:
            through = parts.set(host="127.0.0.1", port=relay.port)
            database = Database(through.render_as_string(hide_password=False), wait_s=0.6)
            database.migrate()
            yield database, relay
            database.close()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[tuple[Database, Path]]:
    """A SQLite database with short waits, and where it lies."""
    path = tmp_path / "test.sqlite3"
    database = Database(f"sqlite:///{path}", wait_s=0.1)
    database.migrate()
    yield database, path
    database.close()


def add_tenant(database: Database, name: str) -> None:
    with database.session() as session:
        session.add(Tenant(name=name, created_at=database.now(session)))


def count_tenants(database: Database) -> int:
    with database.reading() as session:
        return int(session.execute(text("SELECT count(*) FROM tenants")).scalar_one())


def test_an_exception_takes_back_the_transaction(db: Database) -> None:
    def interrupted() -> None:
        with db.session() as session:
            session.add(Tenant(name="one", created_at=db.now(session)))
            session.flush()
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert count_tenants(db) == 0


def adding_tenant(database: Database) -> Executable:
    """A statement that is made once."""
    columns = Tenant.__table__.c
    values = {name: bindparam(name) for name in ("id", "name", "created_at")}
    added: Executable = database.insert(Tenant.__table__).values(values).returning(columns.id)
    return added


def test_statements_of_a_transaction_are_kept_together_or_not_at_all(db: Database) -> None:
    add = adding_tenant(db)
    with db.transaction() as transaction:
        for name in ("one", "two"):
            transaction.rows(add, id=uuid4(), name=name, created_at=transaction.now())
    assert count_tenants(db) == 2

    def interrupted() -> None:
        with db.transaction() as transaction:
            transaction.rows(add, id=uuid4(), name="three", created_at=transaction.now())
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert count_tenants(db) == 2
    with db.session() as session:
        now = db.now(session)
        moments = session.scalars(select(Tenant.created_at)).all()
    assert all(abs((now - moment).total_seconds()) < 60 for moment in moments)


def test_a_broken_constraint_stays_what_it_is(db: Database) -> None:
    add_tenant(db, "one")
    with pytest.raises(IntegrityError):
        add_tenant(db, "one")
    assert count_tenants(db) == 1


def test_a_bad_statement_is_not_taken_for_an_outage(db: Database) -> None:
    with pytest.raises(DBAPIError), db.session() as session:
        session.execute(text("SELECT nonsense FROM tenants"))


def test_moments_come_back_in_utc(db: Database) -> None:
    with db.session() as session:
        now = db.now(session)
        session.add(Tenant(name="one", created_at=now))
    with db.reading() as session:
        found = session.query(Tenant).one().created_at
    assert found == now
    assert found.utcoffset() == now.utcoffset()


def test_sqlite_syncs_every_commit_and_keeps_foreign_keys(file: tuple[Database, Path]) -> None:
    database, _ = file
    with database.session() as session:
        pragmas = [
            session.execute(text(f"PRAGMA {name}")).scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        ]
    assert pragmas == ["wal", 2, 1]


def test_a_locked_sqlite_file_is_busy_for_writers_and_open_for_readers(
    file: tuple[Database, Path],
) -> None:
    database, path = file
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(Busy):
        add_tenant(database, "one")
    assert count_tenants(database) == 0
    holder.execute("ROLLBACK")
    holder.close()
    add_tenant(database, "one")


def test_a_full_disk_under_sqlite_is_storage_full(file: tuple[Database, Path]) -> None:
    database, _ = file

    def fill() -> None:
        with database.session() as session:
            pages = session.execute(text("PRAGMA page_count")).scalar_one()
            session.execute(text(f"PRAGMA max_page_count={pages}"))
            for number in range(2000):
                session.add(Tenant(name=f"{number:0200}", created_at=database.now(session)))

    with pytest.raises(StorageFull):
        fill()
    assert count_tenants(database) == 0


def test_a_missing_sqlite_folder_is_unavailable(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'no' / 'folder' / 'test.sqlite3'}")
    with pytest.raises(DatabaseUnavailable):
        database.check()


def test_an_absent_postgresql_server_is_unavailable() -> None:
    database = Database("postgresql+psycopg://root@127.0.0.1:9/test")
    with pytest.raises(DatabaseUnavailable):
        database.check()
    database.close()


def test_a_locked_postgresql_row_is_busy(relayed: tuple[Database, Relay]) -> None:
    database, _ = relayed
    add_tenant(database, "one")
    with database.session() as holder:
        holder.execute(text("UPDATE tenants SET name = 'two'"))
        with pytest.raises(Busy), database.session() as session:
            session.execute(text("UPDATE tenants SET name = 'three'"))


def test_broken_connections_are_replaced(relayed: tuple[Database, Relay]) -> None:
    database, relay = relayed
    add_tenant(database, "one")
    relay.cut()
    assert count_tenants(database) == 1


def test_a_connection_that_breaks_in_a_transaction_commits_nothing(
    relayed: tuple[Database, Relay],
) -> None:
    database, relay = relayed

    def interrupted() -> None:
        with database.session() as session:
            session.add(Tenant(name="one", created_at=database.now(session)))
            session.flush()
            relay.cut()

    def interrupted_statements() -> None:
        with database.transaction() as transaction:
            moment = transaction.now()
            transaction.rows(adding_tenant(database), id=uuid4(), name="two", created_at=moment)
            relay.cut()

    for interrupt in (interrupted, interrupted_statements):
        with pytest.raises(DatabaseUnavailable):
            interrupt()
        assert count_tenants(database) == 0


def test_a_hung_server_is_given_up_on_and_found_again(relayed: tuple[Database, Relay]) -> None:
    database, relay = relayed
    add_tenant(database, "one")
    relay.hang()
    before_s = time.monotonic()
    with pytest.raises(DatabaseUnavailable):
        database.check()
    assert time.monotonic() - before_s < 5
    relay.resume()
    assert count_tenants(database) == 1
