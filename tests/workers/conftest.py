"""A worker over SQLite with a reader that does what its test says."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storage.db.database import Database
from storage.db.records import DocumentRecord
from storage.storage import Storage, assemble
from tests.storage.conftest import send_text
from workers.artifact_builder import BuiltArtifact, Progress
from workers.config import WorkerConfig
from workers.worker import Worker

QUICK = WorkerConfig(lease_s=30.0, heartbeat_s=0.02, poll_s=0.02)
Upload = Callable[..., DocumentRecord]


class WordBuilder:
    """Reads word by word; `during` runs before each and may raise.

    Attributes:
        fault: raised before the first word, if there is one.
        texts: all texts whose reading has begun.
        payload: the one file of the artifact.
    """

    def __init__(self, during: Callable[[int], object] = lambda word: None) -> None:
        self.fingerprint = "now"
        self.during = during
        self.fault: Exception | None = None
        self.texts: list[str] = []
        self.payload = b"cache"

    def build(self, path: Path, kind: str, progress: Progress) -> BuiltArtifact:
        """See `ArtifactBuilder.build`."""
        assert kind == "txt"
        self.texts.append(path.read_text())
        words = self.texts[-1].split()
        if self.fault is not None:
            raise self.fault
        for done in range(len(words)):
            self.during(done)
            progress("prefill", done + 1, len(words))
        progress("calibrate", len(words), len(words))
        return BuiltArtifact(
            manifest={"codec": "none"},
            files=iter([("document.bin", self.texts[-1].encode()), ("layer.bin", self.payload)]),
            kv_bytes=64,
            num_tokens=len(words),
            num_pages=1,
        )


@pytest.fixture
def reader() -> WordBuilder:
    """The reader that the worker uses."""
    return WordBuilder()


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    """Storage over SQLite."""
    database = Database(f"sqlite:///{tmp_path / 'test.sqlite3'}")
    database.migrate()
    opened = assemble(database, tmp_path / "data")
    yield opened
    opened.close()


@pytest.fixture
def worker(storage: Storage, reader: WordBuilder) -> Worker:
    """A worker with short waits."""
    return Worker(storage, reader, QUICK)


@pytest.fixture
def upload(storage: Storage, tmp_path: Path) -> Upload:
    """Upload a text for the default tenant."""

    def send(text: str = "one two three four") -> DocumentRecord:
        return send_text(storage, tmp_path, storage.tenants.default(), text)[0]

    return send
