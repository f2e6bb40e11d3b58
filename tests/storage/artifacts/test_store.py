"""Artifacts: what was published comes back byte for byte, or not at all."""

import os
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from common.errors import (
    CacheRebuilding,
    CorruptArtifact,
)
from storage.artifacts.store import Artifacts
from storage.db.records import ArtifactRecord
from storage.storage import Storage
from tests.storage.conftest import Upload
from tests.storage.publishing import FILES, claim, load_all, publish


def test_what_was_published_comes_back(storage: Storage, upload: Upload, root: Path) -> None:
    document = upload()
    published = publish(storage, document)
    found = storage.artifacts.current(document.id)
    assert found == published
    assert found.tenant_id == document.tenant_id
    loaded = storage.artifacts.load(found)
    assert dict(loaded.files) == FILES
    assert loaded.manifest["codec"] == "none"
    assert loaded.manifest["binding"]["fingerprint"] == "now"
    assert found.num_bytes == sum(file.stat().st_size for file in (root / found.folder).iterdir())
    ready = storage.documents.find(document.id)
    facts = (ready.status, ready.num_tokens, ready.num_pages, ready.reading_ms)
    assert facts == ("ready", 50, 2, 1234.5)
    assert ready.ready_at is not None
    job = storage.jobs.latest(document.id)
    assert job is not None
    assert (job.status, job.lease_owner) == ("done", None)


def test_reading_ahead_of_what_is_not_there_is_no_error(storage: Storage, upload: Upload) -> None:
    published = publish(storage, upload())
    stored = storage.artifacts.load(published)
    for name in (*FILES, "nothing.safetensors"):
        stored.read_ahead(name)
    assert dict(stored.files) == FILES


def test_the_artifacts_of_several_documents_are_found_at_once(
    storage: Storage, upload: Upload
) -> None:
    one, two, unread = upload("One."), upload("Two."), upload("Three.")
    published = {document.id: publish(storage, document) for document in (one, two)}
    assert storage.artifacts.current_of([one.id, two.id, unread.id, uuid4()]) == published
    assert storage.artifacts.current_of([two.id]) == {two.id: published[two.id]}
    assert storage.artifacts.current_of([]) == {}


def test_a_new_artifact_replaces_the_old_one(storage: Storage, upload: Upload, root: Path) -> None:
    document = upload()
    old = publish(storage, document)
    storage.jobs.enqueue(document.id)
    new = publish(storage, document, files={"a.bin": b"new"})
    assert storage.artifacts.current(document.id) == new
    assert [path.name for path in root.iterdir()] == [new.folder]
    with pytest.raises(CacheRebuilding):
        load_all(storage, old)


def test_artifacts_of_two_configurations_stand_beside_each_other(
    storage: Storage, upload: Upload
) -> None:
    document = upload()
    one, two = storage.of("one"), storage.of("two")
    assert storage.documents.find(document.id).status == "queued"
    first = publish(storage, document, fingerprint="one")
    assert one.documents.find(document.id).status == "ready"
    seen = two.documents.find(document.id)
    assert (seen.status, seen.is_stale) == ("ready", True)
    assert two.artifacts.current(document.id) is None

    two.jobs.enqueue(document.id)
    assert one.documents.find(document.id).status == "ready", "it answers meanwhile"
    assert two.documents.find(document.id).status == "rebuilding"
    second = publish(two, document, fingerprint="two", files={"a.bin": b"new"})
    assert one.artifacts.current(document.id) == first
    assert two.artifacts.current_of([document.id]) == {document.id: second}
    assert load_all(one, first) == FILES
    assert not two.documents.find(document.id).is_stale
    assert [row.status for row in one.documents.list(document.tenant_id, 9)] == ["ready"]


def test_a_document_that_one_configuration_cannot_read_stays_ready_for_another(
    storage: Storage, upload: Upload
) -> None:
    document = upload()
    publish(storage, document, fingerprint="one")
    two = storage.of("two")
    two.jobs.enqueue(document.id)
    two.jobs.fail(claim(two), "document_too_long", "Too long.")
    assert two.documents.find(document.id).error_code == "document_too_long"
    seen = storage.of("one").documents.find(document.id)
    assert (seen.status, seen.error_code) == ("ready", None)


def test_each_configuration_sees_its_own_figures(storage: Storage, upload: Upload) -> None:
    document = upload()
    publish(storage, document, fingerprint="one")
    two = storage.of("two")
    two.jobs.enqueue(document.id)
    with two.artifacts.draft(document.id, "two") as draft:
        facts = {"kv_bytes": 1, "num_tokens": 99, "num_pages": 2, "reading_ms": 1.0}
        draft.publish(claim(two), {"codec": "none"}, **facts)  # type: ignore[arg-type]
    assert storage.of("one").documents.find(document.id).num_tokens == 50
    assert two.documents.find(document.id).num_tokens == 99
    assert two.dashboard.documents(9)[0].num_tokens == 99
    assert two.dashboard.totals().ready == 1


@pytest.mark.parametrize("again", ["now", "other"])
def test_the_old_artifact_is_served_until_the_new_one_is_committed(
    storage: Storage, upload: Upload, root: Path, again: str
) -> None:
    document = upload()
    old = publish(storage, document)
    storage.jobs.enqueue(document.id)
    seen: dict[str, ArtifactRecord | None] = {}

    def look(step: str) -> None:
        if step in ("manifest_synced", "parent_synced", "committed"):
            seen[step] = storage.artifacts.current(document.id)
            assert load_all(storage, seen[step]) == FILES  # type: ignore[arg-type]

    new = publish(storage, document, fingerprint=again, artifacts=Artifacts(storage.db, root, look))
    assert seen == {"manifest_synced": old, "parent_synced": old, "committed": new}


# -- damage ------------------------------------------------------------------------------------


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def swap_for_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def swap_for_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def swap_for_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "first bit": lambda path: flip(path, 0),
    "middle bit": lambda path: flip(path, path.stat().st_size // 2),
    "last bit": lambda path: flip(path, path.stat().st_size - 1),
    "zeroed": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "truncated": lambda path: os.truncate(path, path.stat().st_size - 1),
    "empty": lambda path: os.truncate(path, 0),
    "longer": lambda path: os.truncate(path, path.stat().st_size + 1),
    "missing": Path.unlink,
    "folder": swap_for_folder,
    "link": swap_for_link,
    "pipe": swap_for_pipe,
}


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("name", ["manifest.json", *FILES])
@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_detected(
    storage: Storage, upload: Upload, root: Path, name: str, damage: str
) -> None:
    artifact = publish(storage, upload())
    DAMAGE[damage](root / artifact.folder / name)
    with pytest.raises(CorruptArtifact):
        load_all(storage, artifact)


def test_another_documents_valid_folder_is_detected(
    storage: Storage, upload: Upload, root: Path
) -> None:
    one, two = (publish(storage, upload(text)) for text in ("One.", "Two."))
    (root / one.folder).rename(root / "aside")
    (root / two.folder).rename(root / one.folder)
    (root / "aside").rename(root / two.folder)
    for artifact in (one, two):
        with pytest.raises(CorruptArtifact):
            load_all(storage, artifact)


def test_another_documents_valid_file_is_detected(
    storage: Storage, upload: Upload, root: Path
) -> None:
    one = publish(storage, upload("One."), files={"a.bin": b"first"})
    two = publish(storage, upload("Two."), files={"a.bin": b"other"})
    (root / two.folder / "a.bin").replace(root / one.folder / "a.bin")
    with pytest.raises(CorruptArtifact):
        load_all(storage, one)


def test_a_row_that_names_anothers_manifest_is_detected(storage: Storage, upload: Upload) -> None:
    one, two = (publish(storage, upload(text)) for text in ("One.", "Two."))
    mixed = ArtifactRecord(
        **{**vars(one), "folder": two.folder, "manifest_hash": two.manifest_hash}
    )
    with pytest.raises(CorruptArtifact):
        load_all(storage, mixed)


def test_a_file_cut_short_while_loading_is_detected(
    storage: Storage, upload: Upload, root: Path
) -> None:
    artifact = publish(storage, upload())
    files = storage.artifacts.load(artifact).files
    next(files)
    os.truncate(root / artifact.folder / "layer-000.safetensors", 10)
    with pytest.raises(CorruptArtifact):
        next(files)


def test_damage_leads_to_another_reading(storage: Storage, upload: Upload, root: Path) -> None:
    document = upload()
    artifact = publish(storage, document)
    flip(root / artifact.folder / "layer-000.safetensors", 5)
    storage.artifacts.quarantine(artifact)
    assert storage.artifacts.current(document.id) is None
    assert storage.documents.find(document.id).status == "rebuilding"
    assert [path.suffix for path in root.iterdir()] == [".quarantine"]
    rebuilt = publish(storage, document)
    assert load_all(storage, rebuilt) == FILES
    storage.artifacts.quarantine(artifact)  # late news of the old damage changes nothing
    assert storage.artifacts.current(document.id) == rebuilt
    assert storage.documents.find(document.id).status == "ready"


def test_quarantined_bytes_go_with_their_document_or_with_time(
    storage: Storage, upload: Upload, root: Path
) -> None:
    one, two = upload("One."), upload("Two.")
    for document in (one, two):
        storage.artifacts.quarantine(publish(storage, document))
    assert storage.artifacts.collect_garbage() == 0
    storage.documents.delete(one.tenant_id, one.id)
    assert len(list(root.iterdir())) == 1
    assert storage.artifacts.collect_garbage() == 0
    assert storage.artifacts.collect_garbage(quarantine_s=-1) == 1
    assert list(root.iterdir()) == []


# -- garbage -----------------------------------------------------------------------------------


def test_garbage_is_what_has_neither_a_row_nor_a_writer(
    storage: Storage, upload: Upload, root: Path
) -> None:
    document = upload()
    artifact = publish(storage, document)
    for name in (f"{uuid4()}.{uuid4().hex}", f"{uuid4()}.{uuid4().hex}.draft"):
        (root / name).mkdir()
        (root / name / "a.bin").write_bytes(b"left")
    (root / "lost+found").mkdir()
    with storage.artifacts.draft(document.id, "other") as draft:
        draft.write("a.bin", b"being written")
        assert storage.artifacts.collect_garbage() == 2
        assert len(list(root.iterdir())) == 3
    assert {path.name for path in root.iterdir()} == {artifact.folder, "lost+found"}
    assert load_all(storage, artifact) == FILES


def test_the_collector_leaves_what_is_about_to_be_committed(
    storage: Storage, upload: Upload, root: Path
) -> None:
    document = upload()
    collected: list[int] = []

    def collect_at(step: str) -> None:
        if step in ("folder_made", "folder_synced", "renamed", "parent_synced", "committed"):
            collected.append(storage.artifacts.collect_garbage())

    artifact = publish(storage, document, artifacts=Artifacts(storage.db, root, collect_at))
    assert collected == [0] * 5
    assert load_all(storage, artifact) == FILES
