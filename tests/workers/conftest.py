"""A worker over SQLite, with an artifact builder that does what its test says."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from common.status import Progress
from storage.config import StorageConfig
from storage.db.database import Database
from storage.db.records import DocumentRecord
from storage.storage import Storage, assemble
from tests.databases import copied
from tests.storage.conftest import send_text
from workers.artifact_builder import BuiltArtifact, FileStore
from workers.config import WorkerConfig
from workers.worker import Worker

QUICK = WorkerConfig(lease_s=30.0, heartbeat_s=0.02, poll_s=0.02)
Upload = Callable[..., DocumentRecord]


class StubArtifactBuilder:
    """Counts words as tokens; `during` is called before each of them, and may raise an error.

    Attributes:
        during_phase: called when all words have been counted, in the next phase.
        progress: the callback of the document that is being read.
        fault: an error that is raised before the first word, if there is one.
        texts: the texts of all documents that were begun.
        payload: the bytes of one of the artifact's files.
        cache: what a server in the same process would be given.
    """

    def __init__(self, during: Callable[[int], object] = lambda word: None) -> None:
        self.fingerprint = "now"
        self.during = during
        self.during_phase: Callable[[], object] = lambda: None
        self.progress: Progress = lambda *_: None
        self.fault: Exception | None = None
        self.texts: list[str] = []
        self.payload = b"cache"
        self.cache: object = None

    def expected_s(self, num_tokens: int) -> float:
        """See `ArtifactBuilder.expected_s`."""
        return num_tokens

    def expected_bytes(self, num_tokens: int) -> int:
        """See `ArtifactBuilder.expected_bytes`."""
        return 64 * num_tokens

    def build(self, path: Path, kind: str, progress: Progress, files: FileStore) -> BuiltArtifact:
        """See `ArtifactBuilder.build`."""
        assert kind == "txt"
        self.texts.append(path.read_text())
        words = self.texts[-1].split()
        self.progress = progress
        if self.fault is not None:
            raise self.fault
        for done in range(len(words)):
            self.during(done)
            progress("prefill", done + 1, len(words))
        files.write("document.bin", [self.texts[-1].encode()])
        files.write("layer.bin", [self.payload])
        progress("calibrate", 0, len(words))
        self.during_phase()
        progress("calibrate", len(words), len(words))
        return BuiltArtifact(
            manifest={"codec": "none"},
            kv_bytes=64,
            num_tokens=len(words),
            num_pages=1,
            cache=self.cache,
        )


@pytest.fixture
def builder() -> StubArtifactBuilder:
    """The artifact builder of the worker."""
    return StubArtifactBuilder()


@pytest.fixture
def storage(migrated_sqlite: bytes, tmp_path: Path) -> Iterator[Storage]:
    """Storage over SQLite, as the builder's model and settings see it."""
    database = Database(copied(migrated_sqlite, tmp_path / "test.sqlite3"))
    opened = assemble(database, StorageConfig(tmp_path / "data")).of("now")
    yield opened
    opened.close()


@pytest.fixture
def worker(storage: Storage, builder: StubArtifactBuilder) -> Worker:
    """A worker with short waits."""
    return Worker(storage, builder, QUICK)


@pytest.fixture
def upload(storage: Storage, tmp_path: Path) -> Upload:
    """Upload a text for the default tenant."""

    def send(text: str = "one two three four", uploader: str = "") -> DocumentRecord:
        tenant = storage.tenants.default()
        return send_text(storage, tmp_path, tenant, text, uploader=uploader)[0]

    return send


def wait_for(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait until something is true."""
    deadline_s = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline_s, "waited in vain"
        time.sleep(0.01)
