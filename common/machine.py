"""The memory of this machine that programs can have, as far as a container's limit lets them."""

import os
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")
# Pages of files, which the system gives up when programs need memory.
RECLAIMABLE = ("inactive_file", "active_file")
UNLIMITED = 1 << 60  # version 1 writes a number beyond any memory where there is no limit


def available_bytes(meminfo: Path = MEMINFO, cgroup: Path = CGROUP, own: Path = OWN_CGROUP) -> int:
    """Return the memory that programs can have without others losing theirs.

    Args:
        meminfo: what the system says of the whole machine.
        cgroup: where the system shows its control groups, of version 2 or 1.
        own: names the control group of this process.
    """
    machine = _of_machine(meminfo)
    return min([machine, *_of_groups(cgroup, own)])


def _of_machine(meminfo: Path) -> int:
    if meminfo.is_file():
        for line in meminfo.read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(":")
            if name == "MemAvailable":
                return int(value.split()[0]) * 1024
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _of_groups(cgroup: Path, own: Path) -> list[int]:
    """What each control group leaves that this process is in, its own and those around it."""
    if not own.is_file():
        return []
    left = []
    for line in own.read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            files, root = ("memory.max", "memory.current"), cgroup
        elif "memory" in controllers.split(","):
            files, root = ("memory.limit_in_bytes", "memory.usage_in_bytes"), cgroup / "memory"
        else:
            continue
        folder = root / path.lstrip("/")
        while folder == root or root in folder.parents:
            if (found := _of_group(folder, *files)) is not None:
                left.append(found)
            folder = folder.parent
    return left


def _of_group(folder: Path, limit_file: str, used_file: str) -> int | None:
    """What a control group leaves; None if it has no limit or is not to be seen from here."""
    try:
        limit = (folder / limit_file).read_text(encoding="ascii").strip()
        used = int((folder / used_file).read_text(encoding="ascii"))
        lines = (folder / "memory.stat").read_text(encoding="ascii").splitlines()
        stat = {name: int(value) for name, value in map(str.split, lines)}
        if limit == "max" or int(limit) >= UNLIMITED:
            return None
        reclaimable = sum(stat.get(name, 0) for name in RECLAIMABLE)
        return max(0, int(limit) - max(0, used - reclaimable))
    except (OSError, ValueError):
        return None
