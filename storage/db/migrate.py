"""Migrations of the schema, run by the program itself with Alembic."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, text

from common.errors import Permanent

FOLDER = Path(__file__).parent / "migrations"
LOCK_KEY = 7_301_884_112  # an arbitrary number, the same in every process


def upgrade(engine: Engine, revision: str = "head") -> str | None:
    """Migrate the schema up to `revision` in one transaction; other processes wait meanwhile.

    Returns: the revision before; None for an empty database.
    Raises: Permanent if the database was migrated by a newer program.
    """
    with engine.begin() as connection:
        _lock_migrations(connection)
        before = MigrationContext.configure(connection).get_current_revision()
        try:
            command.upgrade(config(connection), revision)
        except CommandError as error:
            raise Permanent(
                "The database belongs to a newer version of Lectern; run that version, "
                "or point this one to another database."
            ) from error
    engine.dispose()
    return before


def downgrade(engine: Engine, revision: str = "base") -> None:
    """Migrate the schema back to `revision` in one transaction."""
    with engine.begin() as connection:
        _lock_migrations(connection)
        command.downgrade(config(connection), revision)
    engine.dispose()


def revisions() -> tuple[str, ...]:
    """Return all revisions, newest first."""
    scripts = ScriptDirectory(str(FOLDER))
    return tuple(script.revision for script in scripts.walk_revisions())


def revision_of(connection: Connection) -> str | None:
    """Return the revision of a database's schema; None for an empty database."""
    return MigrationContext.configure(connection).get_current_revision()


def config(connection: Connection) -> Config:
    """Return Alembic's configuration for an open connection."""
    alembic_config = Config()
    alembic_config.set_main_option("script_location", str(FOLDER))
    alembic_config.set_main_option("path_separator", "os")
    alembic_config.attributes["connection"] = connection
    return alembic_config


def _lock_migrations(connection: Connection) -> None:
    """Wait for other migrations; on SQLite, BEGIN IMMEDIATE has locked the file already."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK_KEY})
