"""Files and folders that only their owner can open."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.config import StorageConfig
from storage.files import make_files_private, make_private_folder
from storage.storage import open_storage


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    previous = os.umask(0o022)
    yield
    os.umask(previous)


def mode(path: Path) -> int:
    """The permission bits of a path."""
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize(
    ("before", "after"), [(None, 0o700), (0o755, 0o700), (0o750, 0o750), (0o700, 0o700)]
)
def test_a_folder_is_closed_to_all_others(tmp_path: Path, before: int | None, after: int) -> None:
    folder = tmp_path / "parent" / "data"
    if before is not None:
        folder.mkdir(parents=True)
        folder.chmod(before)
    make_private_folder(folder)
    assert mode(folder) == after


def test_opening_storage_closes_the_data_folder(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    open_storage(StorageConfig(folder)).close()
    assert mode(folder) == 0o700


def test_new_files_are_private_and_a_stricter_mask_stays(tmp_path: Path) -> None:
    make_files_private()
    (tmp_path / "file").touch()
    assert mode(tmp_path / "file") == 0o600
    os.umask(0o177)
    make_files_private()
    assert os.umask(0o022) == 0o177
