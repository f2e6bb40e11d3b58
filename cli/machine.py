"""This machine's memory, as far as documents may have it."""

import os
from dataclasses import dataclass
from pathlib import Path

import torch

MEMINFO = Path("/proc/meminfo")


@dataclass(frozen=True)
class Memory:
    """Memory of this machine, in bytes.

    Attributes:
        device: "cuda" or "cpu", where a model would run.
        host: available to programs; gpu: of the first GPU, None if none is used.
    """

    device: str
    host: int
    gpu: int | None

    def rooms(self, weight_bytes: int) -> tuple[tuple[str, int], ...]:
        """Return by place the bytes that a model of `weight_bytes` leaves for documents."""
        if self.gpu is None:
            return (("host memory", max(0, self.host - weight_bytes)),)
        return (("GPU memory", max(0, self.gpu - weight_bytes)), ("host memory", self.host))


def read_memory(device: str) -> Memory:
    """Look at this machine's memory.

    Args:
        device: as of `LECTERN_DEVICE`.
    """
    has_gpu = device != "cpu" and torch.cuda.is_available()
    gpu = torch.cuda.get_device_properties(0).total_memory if has_gpu else None
    return Memory("cuda" if has_gpu else "cpu", _available_bytes(), gpu)


def _available_bytes() -> int:
    """Memory that programs can have without others losing theirs."""
    if MEMINFO.is_file():
        for line in MEMINFO.read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(":")
            if name == "MemAvailable":
                return int(value.split()[0]) * 1024
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
