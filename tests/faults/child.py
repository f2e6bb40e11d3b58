"""What the processes do that these tests kill, in a module that a process can import quickly."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from common.status import Progress
from storage.artifacts.store import Artifacts
from storage.config import StorageConfig
from storage.db.database import Database
from storage.storage import Storage, assemble
from workers.artifact_builder import BuiltArtifact, FileStore
from workers.config import WorkerConfig
from workers.worker import Worker

FILES = {"document.bin": b"d" * 1000, "layer.bin": bytes(range(256)) * 100}
SOON_S = 0.05  # a lease that a test need not wait for
STEADY = WorkerConfig(lease_s=30.0, heartbeat_s=0.05, poll_s=0.02, max_attempts=10_000)


class StubArtifactBuilder:
    """Builds in `num_steps` steps of `step_s` seconds; `at` is called before each of them."""

    fingerprint = "now"

    def __init__(
        self, num_steps: int = 1, step_s: float = 0.0, at: Callable[[int], None] = lambda step: None
    ) -> None:
        self._num_steps = num_steps
        self._step_s = step_s
        self._at = at

    def expected_s(self, num_tokens: int) -> float:
        """See `ArtifactBuilder.expected_s`."""
        return num_tokens

    def expected_bytes(self, num_tokens: int) -> int:
        """See `ArtifactBuilder.expected_bytes`."""
        return num_tokens

    def build(self, path: Path, kind: str, progress: Progress, files: FileStore) -> BuiltArtifact:
        """See `ArtifactBuilder.build`."""
        text = path.read_bytes()
        for step in range(self._num_steps):
            self._at(step)
            time.sleep(self._step_s)
            progress("prefill", step + 1, self._num_steps)
        for name, data in (*FILES.items(), ("text.bin", text)):
            files.write(name, [data])
        return BuiltArtifact({"codec": "none"}, kv_bytes=10, num_tokens=5, num_pages=1)


def open_at(url: str, folder: Path, failpoint: Callable[[str], None] | None = None) -> Storage:
    """Open a migrated database and its folder, publishing with a failpoint if one is given."""
    storage = assemble(Database(url), StorageConfig(folder))
    if failpoint is None:
        return storage
    artifacts = Artifacts(storage.db, folder / "artifacts", failpoint)
    return Storage(**{**vars(storage), "artifacts": artifacts})


def signal_at(step: str, number: int) -> Callable[[str], None]:
    """A failpoint at which this process gets a signal."""

    def failpoint(reached: str) -> None:
        if reached == step:
            os.kill(os.getpid(), number)

    return failpoint


def publish_until(url: str, folder: Path, step: str, number: int) -> None:
    """Read one document; get a signal at a publish step."""
    storage = open_at(url, folder, signal_at(step, number))
    settings = replace(STEADY, lease_s=SOON_S, heartbeat_s=60.0)
    Worker(storage, StubArtifactBuilder(), settings).run_once()
    storage.close()


def read_until(url: str, folder: Path, step: int, number: int) -> None:
    """Read one document; get a signal in the middle of reading."""

    def at(reached: int) -> None:
        if reached == step:
            os.kill(os.getpid(), number)

    storage = open_at(url, folder)
    settings = replace(STEADY, lease_s=SOON_S, heartbeat_s=60.0)
    Worker(storage, StubArtifactBuilder(num_steps=20, at=at), settings).run_once()
    storage.close()


def work(url: str, folder: Path, log: Path, step_s: float, max_attempts: int = 10_000) -> None:
    """Work until killed; every commit is noted in `log`, one line each."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    reading = threading.local()  # a worker reads two documents at a time

    def note(step: str) -> None:
        if step == "committed":
            os.write(descriptor, f"{reading.name}\n".encode())

    class NotingBuilder(StubArtifactBuilder):
        def build(
            self, path: Path, kind: str, progress: Progress, files: FileStore
        ) -> BuiltArtifact:
            reading.name = path.name
            return super().build(path, kind, progress, files)

    storage = open_at(url, folder, note)
    builder = NotingBuilder(num_steps=random.randint(1, 4), step_s=step_s)
    settings = replace(STEADY, max_attempts=max_attempts)
    Worker(storage, builder, settings).run(threading.Event())


def poison(url: str, folder: Path) -> None:
    """Work, but die of every document."""

    def die(_: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    storage = open_at(url, folder)
    settings = replace(STEADY, max_attempts=3)
    Worker(storage, StubArtifactBuilder(at=die), settings).run(threading.Event())
