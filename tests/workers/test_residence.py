"""A worker beside a server: what it has read can be asked about before it is stored."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from common.errors import LeaseLost
from storage.readable import ReadableDocument
from storage.storage import Storage
from tests.workers.conftest import QUICK, StubArtifactBuilder, Upload
from tests.workers.test_worker import take_over
from workers.worker import Worker


@dataclass
class Memory:
    """The memory of a server, in which one document has room; a `Residence`."""

    storage: Storage
    room_bytes: list[int] = field(default_factory=list)
    kept: list[object] = field(default_factory=list)
    given_up: list[object] = field(default_factory=list)
    look: Callable[[], object] = lambda: None

    @contextmanager
    def room(self, num_bytes: int) -> Iterator[str]:
        """See `Residence.room`."""
        self.room_bytes.append(num_bytes)
        yield "the room"

    @contextmanager
    def keep(self, document: ReadableDocument, cache: object, room: object) -> Iterator[None]:
        """See `Residence.keep`."""
        assert room == "the room"
        self.kept.append(cache)
        self.storage.readable.add(document)
        self.look()
        try:
            yield
        except BaseException:
            self.given_up.append(cache)
            raise
        finally:
            self.storage.readable.remove(document)


@pytest.fixture
def memory(storage: Storage) -> Memory:
    return Memory(storage)


@pytest.fixture
def worker(storage: Storage, builder: StubArtifactBuilder, memory: Memory) -> Worker:
    builder.cache = "the cache"
    return Worker(storage, builder, QUICK, memory)


def test_a_document_is_readable_before_it_is_ready(
    storage: Storage, worker: Worker, memory: Memory, upload: Upload
) -> None:
    document = upload("one two three")
    seen: list[object] = []

    def look() -> None:
        found = storage.documents.find(document.id)
        seen.append((found.status, found.num_tokens, found.num_pages, found.ready_at))
        state = storage.read_state(document.id)
        assert state is not None
        seen.append((state.status, state.status.is_final))
        readable = storage.readable.find(document.id)
        assert readable is not None
        seen.append(readable.artifact_id)

    memory.look = look
    assert worker.run_once()
    assert seen[:2] == [("readable", 3, 1, None), ("readable", False)]
    artifact = storage.artifacts.current(document.id)
    assert artifact is not None
    assert artifact.id == seen[2]
    assert storage.documents.find(document.id).status == "ready"
    assert storage.readable.find(document.id) is None
    assert (memory.room_bytes, memory.kept, memory.given_up) == ([3 * 64], ["the cache"], [])


def test_sql_never_says_readable_so_that_a_crash_loses_nothing_but_time(
    storage: Storage, worker: Worker, memory: Memory, upload: Upload
) -> None:
    document = upload("one two three")
    others: list[str] = []
    another = storage.of(storage.fingerprint)

    def look() -> None:
        storage.readable.remove(storage.readable.find(document.id))  # type: ignore[arg-type]
        others.append(another.documents.find(document.id).status)

    memory.look = look
    worker.run_once()
    assert others == ["reading"]
    assert storage.documents.find(document.id).status == "ready"


def test_a_document_that_cannot_be_stored_is_given_up(
    storage: Storage, worker: Worker, memory: Memory, upload: Upload
) -> None:
    document = upload("one two three")
    memory.look = lambda: take_over(storage)
    worker.run_once()
    assert memory.given_up == memory.kept == ["the cache"]
    assert storage.readable.find(document.id) is None
    assert storage.documents.find(document.id).status == "reading"
    assert storage.artifacts.current(document.id) is None


def test_the_phases_of_reading_are_told(storage: Storage, worker: Worker, upload: Upload) -> None:
    document = upload("one two three")
    worker.run_once()
    phases = storage.documents.find(document.id).phases_ms
    assert phases is not None
    assert set(phases) == {"extract", "prefill", "calibrate", "pack", "total"}
    assert phases["total"] == pytest.approx(sum(phases.values()) - phases["total"], abs=0.01)


def test_the_error_of_a_writing_thread_ends_the_job(
    storage: Storage,
    worker: Worker,
    builder: StubArtifactBuilder,
    memory: Memory,
    upload: Upload,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    document = upload("one two three")

    def lost(*_: object) -> None:
        raise LeaseLost("Another worker has taken over this job.")

    monkeypatch.setattr("storage.artifacts.draft.ArtifactDraft.write", lost)
    assert worker.run_once()
    assert memory.given_up == memory.kept
    assert storage.artifacts.current(document.id) is None
    assert builder.texts == ["one two three"]
