"""Room for artifacts: what is removed when space is needed, in which order, and what never is."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import select, update

from storage.artifacts.space import ArtifactSpace
from storage.db.records import ArtifactRecord
from storage.db.tables import Artifact
from storage.storage import Storage
from tests.storage.conftest import Upload
from tests.storage.publishing import publish

Make = Callable[[str, float], ArtifactRecord]


@pytest.fixture
def make(storage: Storage, upload: Upload) -> Make:
    """Publish an artifact of a new document for a fingerprint, last used so many hours ago."""
    numbers = iter(range(100))

    def publish_one(fingerprint: str, hours: float) -> ArtifactRecord:
        artifact = publish(storage, upload(f"Text {next(numbers)}."), fingerprint=fingerprint)
        with storage.db.session() as session:
            used_at = storage.db.now(session) - timedelta(hours=hours)
            row = update(Artifact).where(Artifact.id == artifact.id)
            session.execute(row.values(used_at=used_at))
        return artifact

    return publish_one


def left(storage: Storage) -> set[UUID]:
    with storage.db.reading() as session:
        return set(session.scalars(select(Artifact.id)))


def space(storage: Storage, root: Path, limit_bytes: int) -> ArtifactSpace:
    return ArtifactSpace(storage.db, root, "own", limit_bytes)


def test_a_new_cache_replaces_that_of_the_same_settings_alone(
    storage: Storage, upload: Upload
) -> None:
    document = upload("Text.")
    publish(storage, document, fingerprint="one")
    storage.of("two").jobs.enqueue(document.id)
    other = publish(storage, document, fingerprint="two")
    storage.of("one").jobs.enqueue(document.id)
    new = publish(storage, document, fingerprint="one")
    assert left(storage) == {other.id, new.id}


def test_without_a_limit_everything_stays(storage: Storage, make: Make, root: Path) -> None:
    made = {make(name, 9).id for name in ("own", "other")}
    assert space(storage, root, 0).trim() == 0
    assert left(storage) == made


def test_others_go_first_and_of_them_those_used_the_longest_ago(
    storage: Storage, make: Make, root: Path
) -> None:
    own = make("own", 100)
    older, newer = make("other", 9), make("another", 5)
    size = own.num_bytes
    total = size + older.num_bytes + newer.num_bytes
    assert space(storage, root, total).trim() == 0
    assert space(storage, root, total - 1).trim() == older.num_bytes
    assert left(storage) == {own.id, newer.id}
    assert not (root / older.folder).exists()
    assert space(storage, root, size).trim() == newer.num_bytes
    assert left(storage) == {own.id}


def test_then_our_own_go_but_for_the_last(storage: Storage, make: Make, root: Path) -> None:
    oldest, middle, newest = make("own", 30), make("own", 20), make("own", 10)
    assert space(storage, root, 2 * newest.num_bytes).trim() == oldest.num_bytes
    assert left(storage) == {middle.id, newest.id}
    assert space(storage, root, 1).trim() == middle.num_bytes
    assert left(storage) == {newest.id}, "it is larger than the limit, but stays"


def test_caches_of_a_running_process_are_never_removed(
    storage: Storage, make: Make, root: Path
) -> None:
    theirs, own = make("theirs", 99), make("own", 1)
    storage.processes.beat("another server", "server", "theirs")
    tight = space(storage, root, 1)
    assert tight.trim() == 0
    assert tight.free(10**9) == 0
    assert left(storage) == {theirs.id, own.id}


def test_a_full_disk_costs_no_cache_of_our_own(storage: Storage, make: Make, root: Path) -> None:
    own, other = make("own", 99), make("other", 1)
    assert space(storage, root, 0).free(1) == other.num_bytes
    assert left(storage) == {own.id}


def test_many_are_removed_at_once(
    storage: Storage, make: Make, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.artifacts.space.BATCH", 2)
    own = make("own", 1)
    others = [make("other", hours).num_bytes for hours in range(5)]
    assert space(storage, root, 0).drop(["other"]) == sum(others)
    assert left(storage) == {own.id}
    assert [folder.name for folder in root.iterdir()] == [own.folder]


def test_use_is_noted_to_the_hour(storage: Storage, make: Make) -> None:
    storage = storage.of("own")
    for hours, is_noted in ((2.0, True), (0.5, False)):
        made = make("own", hours)
        before = storage.artifacts.current(made.document_id)
        assert before is not None
        storage.artifacts.touch(before)
        after = storage.artifacts.current(made.document_id)
        assert after is not None
        assert (after.used_at != before.used_at) == is_noted
        storage.documents.delete(made.tenant_id, made.document_id)


def test_a_document_whose_cache_was_removed_is_read_again_when_it_is_asked_for(
    storage: Storage, make: Make, root: Path
) -> None:
    made = make("own", 1)
    storage = storage.of("own")
    space(storage, root, 0).drop(["own"])
    document = storage.documents.find(made.document_id)
    assert (document.status, document.is_stale) == ("ready", True)
    assert storage.jobs.claim("worker", 30) is None
    assert storage.space.unread().document_ids == (document.id,)
    assert storage.jobs.enqueue_all(storage.space.unread().document_ids) == 1
    assert storage.documents.find(document.id).status == "rebuilding"
    assert storage.space.unread().document_ids == ()
