"""Publishing reaches the disk in the one order that a power cut cannot tear."""

import os
from pathlib import Path

import pytest

from storage.artifacts.draft import STEPS
from storage.artifacts.store import Artifacts
from storage.storage import Storage
from tests.storage.conftest import Upload
from tests.storage.publishing import FILES, publish


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


def test_an_original_is_on_disk_before_its_row(
    storage: Storage, upload: Upload, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[int] = []
    sync = os.fsync

    def watched(descriptor: int) -> None:
        rows.append(len(storage.documents.list(storage.tenants.default(), 10)))
        sync(descriptor)

    storage.tenants.default()
    monkeypatch.setattr(os, "fsync", watched)
    document = upload()
    monkeypatch.undo()
    assert rows == [0, 0], "the file and its folder"
    assert storage.blobs.path(document.blob_key).exists()
