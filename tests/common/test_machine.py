"""Memory that programs can have: what the machine has free, or what a container leaves of it."""

from pathlib import Path

import pytest

from common.machine import available_bytes

MIB = 1 << 20


@pytest.fixture
def meminfo(tmp_path: Path) -> Path:
    file = tmp_path / "meminfo"
    file.write_text("MemTotal: 4096 kB\nMemAvailable: 2048 kB\n")
    return file


def group(folder: Path, files: dict[str, object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(f"{content}\n")


def test_without_a_limit_it_is_what_the_machine_has(tmp_path: Path, meminfo: Path) -> None:
    own = tmp_path / "own"
    assert available_bytes(meminfo, tmp_path, own) == 2 * MIB
    own.write_text("0::/user\n")
    group(tmp_path / "user", {"memory.max": "max", "memory.current": 5, "memory.stat": "file 3"})
    assert available_bytes(meminfo, tmp_path, own) == 2 * MIB


@pytest.mark.parametrize("place", [".", "outer", "outer/inner"])
def test_the_tightest_group_around_the_process_counts(
    tmp_path: Path, meminfo: Path, place: str
) -> None:
    own, root = tmp_path / "own", tmp_path / "cgroup"
    own.write_text("1:cpu:/x\n0::/outer/inner\n")
    stat = f"inactive_file {MIB // 8}\nactive_file {MIB // 8}"
    limits = {"memory.max": MIB, "memory.current": MIB // 2, "memory.stat": stat}
    group(root / place, limits)
    assert available_bytes(meminfo, root, own) == 3 * MIB // 4


def test_groups_of_the_first_version_are_understood(tmp_path: Path, meminfo: Path) -> None:
    own = tmp_path / "own"
    own.write_text("4:memory:/docker/a\n0::/\n")
    files = {"memory.limit_in_bytes": MIB, "memory.usage_in_bytes": 10, "memory.stat": "cache 1"}
    group(tmp_path / "memory" / "docker" / "a", files)
    assert available_bytes(meminfo, tmp_path, own) == MIB - 10
    group(tmp_path / "memory" / "docker" / "a", {"memory.limit_in_bytes": 2**63 - 4096})
    assert available_bytes(meminfo, tmp_path, own) == 2 * MIB
