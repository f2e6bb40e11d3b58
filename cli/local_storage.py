"""The server's own storage, for commands on its machine that need no running server."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from cli.options import DataDir, not_none, read_settings
from cli.settings import Settings

if TYPE_CHECKING:  # importing SQLAlchemy takes time, which other commands should not need
    from storage.storage import Storage


@contextmanager
def changing_storage(settings: Settings) -> Iterator["Storage"]:
    """Open storage while the block runs; folders and tables are made where they are missing."""
    from storage.files import make_files_private
    from storage.storage import open_storage

    make_files_private()
    with closing(open_storage(settings.storage())) as storage:
        yield storage


@contextmanager
def looking_at_storage(settings: Settings) -> Iterator["Storage | None"]:
    """Open storage while the block runs, and make nothing; None where there is none yet.

    Raises: as `storage.storage.open_existing`.
    """
    from storage.storage import open_existing

    storage = open_existing(settings.storage())
    if storage is None:
        yield None
        return
    with closing(storage):
        yield storage


def local_settings(data_dir: DataDir) -> Settings:
    """Return the settings of a command that works on the server's machine."""
    return read_settings(**not_none(data_dir=data_dir))
