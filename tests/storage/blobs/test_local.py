"""The blob store in a local folder."""

import os
from pathlib import Path

import pytest

from common.errors import OriginalMissing
from storage.blobs.local import LocalBlobs
from storage.storage import Storage


def test_a_copy_is_synced_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "upload").write_bytes(b"bytes")
    blobs = LocalBlobs(tmp_path / "blobs")
    synced: list[list[str]] = []
    sync = os.fsync

    def note(descriptor: int) -> None:
        synced.append([Path(key).suffix for key in list(blobs.keys())])
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    key = blobs.put(tmp_path / "upload")
    assert synced == [[".part"], [""]], "the file under its first name, then the folder"
    with blobs.open(key) as file:
        assert file.read() == b"bytes"


def test_a_blob_is_removed_once_and_for_all(tmp_path: Path) -> None:
    (tmp_path / "upload").write_bytes(b"bytes")
    blobs = LocalBlobs(tmp_path / "blobs")
    key = blobs.put(tmp_path / "upload")
    blobs.delete(key)
    blobs.delete(key)
    assert list(blobs.keys()) == []
    with pytest.raises(OriginalMissing):
        blobs.open(key)


def test_blob_keys_lead_nowhere_else(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    for key in ("../../secret", "/etc/passwd", "", "a" * 32):
        with pytest.raises(OriginalMissing):
            storage.blobs.path(key)
