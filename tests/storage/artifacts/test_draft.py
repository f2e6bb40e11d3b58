"""Publishing an artifact makes it visible all at once, in an order that survives power cuts."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy.orm import Session

from common.errors import (
    DatabaseUnavailable,
    DocumentDeleted,
    InvalidInput,
    JobCancelled,
    LeaseLost,
)
from storage.artifacts import draft as drafts
from storage.artifacts.draft import STEPS
from storage.artifacts.store import Artifacts
from storage.db.database import Database
from storage.storage import Storage
from tests.storage.conftest import Upload
from tests.storage.publishing import FACTS, FILES, claim, load_all, publish


def test_files_then_folder_then_name_then_parent_then_row(
    storage: Storage, upload: Upload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    sync = os.fsync

    def watched(descriptor: int) -> None:
        events.append(f"sync {Path(os.readlink(f'/proc/self/fd/{descriptor}')).name}")
        sync(descriptor)

    document = upload()
    root = tmp_path / "data" / "artifacts"
    monkeypatch.setattr(os, "fsync", watched)
    artifact = publish(storage, document, artifacts=Artifacts(storage.db, root, events.append))
    monkeypatch.undo()

    wanted = ["folder_made"]
    for name in FILES:
        wanted += ["file_written", f"sync {name}", "file_synced"]
    wanted += ["manifest_written", "sync manifest.json", "manifest_synced"]
    wanted += [f"sync {artifact.folder}.draft", "folder_synced", "renamed"]
    wanted += ["sync artifacts", "parent_synced", *STEPS[STEPS.index("job_fenced") :]]
    assert events == wanted
    assert set(events) >= set(STEPS)


def test_a_folder_that_is_collected_before_it_is_locked_is_made_again(
    storage: Storage, upload: Upload, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = upload()
    lock = drafts.lock_folder
    collected: list[Path] = []

    def lock_late(path: Path) -> int | None:
        if not collected:
            collected.append(path)
            assert storage.artifacts.collect_garbage() == 1
        return lock(path)

    monkeypatch.setattr(drafts, "lock_folder", lock_late)
    artifact = publish(storage, document)
    assert collected
    assert load_all(storage, artifact).keys() >= FILES.keys()


def test_a_draft_that_is_left_vanishes(storage: Storage, upload: Upload, root: Path) -> None:
    document = upload()

    def interrupted() -> None:
        with storage.artifacts.draft(document.id, "now") as draft:
            draft.write("a.bin", b"data")
            assert len(list(root.iterdir())) == 1
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert list(root.iterdir()) == []


def test_a_draft_for_no_document_is_refused(storage: Storage) -> None:
    with pytest.raises(DocumentDeleted):
        storage.artifacts.draft(uuid4(), "now")


@pytest.mark.parametrize(
    "name", ["manifest.json", "../a", "a/b", "", ".hidden", "a\x00", "A" * 200]
)
def test_names_stay_inside_the_folder(storage: Storage, upload: Upload, name: str) -> None:
    with (
        storage.artifacts.draft(upload().id, "now") as draft,
        pytest.raises(InvalidInput),
    ):
        draft.write(name, b"data")


def test_a_job_publishes_its_own_document_alone(storage: Storage, upload: Upload) -> None:
    one, other = upload("One."), upload("Two.")
    job = claim(storage)
    assert job.document_id == one.id
    with storage.artifacts.draft(other.id, "now") as draft, pytest.raises(InvalidInput):
        draft.publish(job, {}, **FACTS)  # type: ignore[arg-type]


def test_a_lost_lease_publishes_nothing(storage: Storage, upload: Upload, root: Path) -> None:
    document = upload()
    job = claim(storage)
    storage.jobs.release(job)
    with pytest.raises(LeaseLost):
        publish(storage, document, job)
    assert list(root.iterdir()) == []
    assert storage.documents.find(document.id).status == "queued"


def test_deleting_while_publishing_leaves_nothing(
    storage: Storage, upload: Upload, root: Path
) -> None:
    document = upload()

    def delete_at(step: str) -> None:
        if step == "parent_synced":
            storage.documents.delete(document.tenant_id, document.id)

    with pytest.raises(DocumentDeleted):
        publish(storage, document, artifacts=Artifacts(storage.db, root, delete_at))
    assert list(root.iterdir()) == []


def test_writing_a_large_file_can_be_stopped_in_the_middle(
    storage: Storage, upload: Upload, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drafts, "PART_BYTES", 100)
    document = upload()
    asked: list[int] = []

    def cancel() -> None:
        asked.append(1)
        if len(asked) == 3:
            raise JobCancelled("The document was deleted.")

    with pytest.raises(JobCancelled), storage.artifacts.draft(document.id, "now") as draft:
        draft.write("large.bin", bytes(1000), cancel)
    assert len(asked) == 3
    assert list(root.iterdir()) == []


def test_deleting_waits_for_a_publication_that_has_begun(
    storage: Storage, upload: Upload, root: Path
) -> None:
    document = upload()
    deletion = threading.Thread(
        target=storage.documents.delete, args=(document.tenant_id, document.id)
    )

    def delete_meanwhile(step: str) -> None:
        if step == "row_inserted":  # the last step before the commit
            deletion.start()
            deletion.join(0.5)
            assert deletion.is_alive()

    publish(storage, document, artifacts=Artifacts(storage.db, root, delete_meanwhile))
    deletion.join(20)
    assert not deletion.is_alive()
    assert storage.artifacts.current(document.id) is None
    assert list(root.iterdir()) == []


class Flaky(Database):
    """Loses its connection at chosen commits, before or after they went through."""

    def __init__(self, url: str, *, after_commit: bool) -> None:
        super().__init__(url)
        self.after_commit = after_commit
        self.losses = 0

    @contextmanager
    def session(self) -> Iterator[Session]:
        with super().session() as session:
            yield session
            if self.losses and not self.after_commit:
                self.losses -= 1
                raise DatabaseUnavailable("lost before the commit")
        if self.losses and self.after_commit:
            self.losses -= 1
            raise DatabaseUnavailable("lost after the commit")


@pytest.mark.parametrize("after_commit", [False, True])
def test_a_connection_lost_at_the_commit_costs_no_reading(
    storage: Storage,
    upload: Upload,
    root: Path,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    after_commit: bool,
) -> None:
    monkeypatch.setattr(drafts, "COMMIT_RETRIES_S", (0.0, 0.0))
    document = upload()
    flaky = Flaky(url, after_commit=after_commit)
    job = claim(storage)
    flaky.losses = 1
    published = publish(storage, document, job, artifacts=Artifacts(flaky, root))
    flaky.close()
    assert storage.artifacts.current(document.id) == published
    assert load_all(storage, published) == FILES


def test_a_database_that_stays_away_leaves_the_folder_to_the_collector(
    storage: Storage, upload: Upload, root: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drafts, "COMMIT_RETRIES_S", (0.0,))
    document = upload()
    job = claim(storage)
    flaky = Flaky(url, after_commit=False)
    flaky.losses = 99
    with pytest.raises(DatabaseUnavailable):
        publish(storage, document, job, artifacts=Artifacts(flaky, root))
    flaky.close()
    assert storage.artifacts.current(document.id) is None
    assert storage.artifacts.collect_garbage() == 1
    assert list(root.iterdir()) == []
    assert load_all(storage, publish(storage, document, job)) == FILES


def test_the_manifest_is_plain_json_with_every_files_hash(
    storage: Storage, upload: Upload, root: Path
) -> None:
    artifact = publish(storage, upload())
    manifest = json.loads((root / artifact.folder / "manifest.json").read_text())
    assert manifest["format"] == 1
    assert {name: file["num_bytes"] for name, file in manifest["files"].items()} == {
        name: len(data) for name, data in FILES.items()
    }
    assert all(len(file["blake3"]) == 64 for file in manifest["files"].values())
