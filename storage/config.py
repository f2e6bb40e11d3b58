"""Settings of storage: where bytes and rows are kept."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class StorageConfig:
    """Where storage keeps what it keeps.

    Attributes:
        data_dir: originals, artifacts, and the SQLite database where no other is named.
        database_url: SQLAlchemy URL of a PostgreSQL database; empty for SQLite in the data folder.
        redis_url: of the server that announces jobs and progress; empty for polling.
    """

    data_dir: Path
    database_url: str = field(default="", repr=False)
    redis_url: str = field(default="", repr=False)

    def sql_url(self) -> str:
        """The SQLAlchemy URL: the one that is named, else SQLite in the data folder."""
        return self.database_url or f"sqlite:///{self.data_dir.resolve() / 'lectern.sqlite3'}"
