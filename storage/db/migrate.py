"""Migrations, run by the program itself: no command line, no file to configure."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, text

from common.errors import Permanent

FOLDER = Path(__file__).parent / "migrations"
LOCK = 7_301_884_112  # any number, the same in every process


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Bring the schema up to `revision` in one transaction; others wait for their turn.

    Raises: Permanent if the database was migrated by a newer program.
    """
    with engine.begin() as connection:
        _take_turn(connection)
        try:
            command.upgrade(config(connection), revision)
        except CommandError as error:
            raise Permanent(
                "The database belongs to a newer version of Lectern; run that version, "
                "or point this one to another database."
            ) from error
    engine.dispose()


def downgrade(engine: Engine, revision: str = "base") -> None:
    """Take the schema back to `revision` in one transaction."""
    with engine.begin() as connection:
        _take_turn(connection)
        command.downgrade(config(connection), revision)
    engine.dispose()


def revisions() -> tuple[str, ...]:
    """All revisions, newest first."""
    scripts = ScriptDirectory(str(FOLDER))
    return tuple(script.revision for script in scripts.walk_revisions())


def config(connection: Connection) -> Config:
    """Alembic's configuration around an open connection."""
    made = Config()
    made.set_main_option("script_location", str(FOLDER))
    made.set_main_option("path_separator", "os")
    made.attributes["connection"] = connection
    return made


def _take_turn(connection: Connection) -> None:
    """SQLite's BEGIN IMMEDIATE has locked the file already."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
