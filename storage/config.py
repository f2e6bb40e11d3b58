"""Settings of storage: where files and rows are stored."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from annotated_types import Ge, Gt

SQLITE_FILE = "lectern.sqlite3"


@dataclass(frozen=True)
class StorageConfig:
    """Where files and rows are stored.

    Attributes:
        data_dir: folder of originals, artifacts and, unless another database is named, SQLite.
        database_url: SQLAlchemy URL of a PostgreSQL database; empty for SQLite in the data folder.
        redis_url: URL of the server that announces jobs and progress; empty for polling.
        stored_cache_bytes: bytes that all caches may take on the disk; 0 for as many as it holds.
        answer_days: days for which the figures of an answer are kept, without its text, beside
            the sums over all answers; 0 for ever.
        conversation_hours: hours for which the turns of a conversation are kept after its last one.
        stored_answer_hours: hours for which an answer is given again to the same question; 0 for
            never, and none is stored then.
    """

    data_dir: Path
    database_url: str = field(default="", repr=False)
    redis_url: str = field(default="", repr=False)
    stored_cache_bytes: Annotated[int, Ge(0)] = 0
    answer_days: Annotated[int, Ge(0)] = 90
    conversation_hours: Annotated[float, Gt(0)] = 24.0
    stored_answer_hours: Annotated[float, Ge(0)] = 24.0

    def sql_url(self) -> str:
        """Return the SQLAlchemy URL of the named database, or else of SQLite in the data folder."""
        return self.database_url or f"sqlite:///{self.data_dir.resolve() / SQLITE_FILE}"
