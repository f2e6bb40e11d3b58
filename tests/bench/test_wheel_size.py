"""The wheel is measured, and refused if it holds what trains or measures."""

from pathlib import Path
from zipfile import ZipFile

import pytest

from bench.wheel_size import measure


def wheel_of(folder: Path, *names: str) -> Path:
    wheel = folder / "lectern.whl"
    with ZipFile(wheel, "w") as archive:
        for name in names:
            archive.writestr(name, "text")
    return wheel


def test_bytes_and_files_are_counted(tmp_path: Path) -> None:
    wheel = wheel_of(tmp_path, "engine/model.py", "reader/weights/config.json")
    found = measure(wheel)
    assert (found["bytes"], found["files"]) == (wheel.stat().st_size, 2)
    assert found["megabytes"] == pytest.approx(found["bytes"] / 1e6)


def test_a_wheel_with_what_trains_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"holds training/train\.py"):
        measure(wheel_of(tmp_path, "engine/model.py", "training/train.py"))
