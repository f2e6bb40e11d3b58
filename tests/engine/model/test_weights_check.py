"""Digests are remembered while files look unchanged, and a change that does not show is found."""

import os
import threading
from pathlib import Path

import pytest

from common.errors import CacheStale, ModelChanged
from engine.model import fingerprint
from engine.model.fingerprint import weights_fingerprint
from engine.model.weights_check import WeightsCheck

NAMES = ("config.json", "model-1.safetensors", "model-2.safetensors")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in NAMES:
        (folder / name).write_text(f"The bytes of {name}.")
    return folder


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that are hashed from now on."""
    names: list[str] = []
    hash_file = fingerprint.file_digest

    def note(path: Path) -> str:
        names.append(path.name)
        return hash_file(path)

    monkeypatch.setattr(fingerprint, "file_digest", note)
    return names


def test_unchanged_files_are_not_hashed_again(
    folder: Path, tmp_path: Path, hashed: list[str]
) -> None:
    remembered = tmp_path / "data" / "weights.json"
    expected = weights_fingerprint(folder)
    assert weights_fingerprint(folder, remembered) == expected
    hashed.clear()
    assert weights_fingerprint(folder, remembered) == expected
    assert not hashed
    (folder / NAMES[1]).write_text("Other bytes.")
    assert weights_fingerprint(folder, remembered) == weights_fingerprint(folder) != expected
    assert hashed[0] == NAMES[1]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"x": 3}'])
def test_a_damaged_memory_is_none(folder: Path, tmp_path: Path, content: str) -> None:
    remembered = tmp_path / "weights.json"
    remembered.write_text(content)
    assert weights_fingerprint(folder, remembered) == weights_fingerprint(folder)


def change_unseen(path: Path) -> None:
    """Change a file's bytes, but neither its size nor the time that it shows."""
    stat = path.stat()
    path.write_bytes(b"X" * stat.st_size)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_a_change_is_found_in_the_background(folder: Path, tmp_path: Path) -> None:
    remembered = tmp_path / "weights.json"
    check = WeightsCheck(folder, weights_fingerprint(folder, remembered), remembered)
    told = threading.Event()
    check.on_difference(told.set)
    change_unseen(folder / NAMES[2])
    assert check.problem() is None
    check.check_answer()
    check.start()
    with pytest.raises(ModelChanged):
        check.confirm()
    assert told.wait(10)
    assert "Restart" in str(check.problem())
    with pytest.raises(CacheStale):
        check.check_answer()
    assert not remembered.exists()


def test_files_that_are_what_they_were_are_confirmed(folder: Path, tmp_path: Path) -> None:
    check = WeightsCheck(folder, weights_fingerprint(folder), tmp_path / "weights.json")
    check.start()
    check.confirm()
    check.check_answer()
    assert check.problem() is None
