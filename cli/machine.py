"""This machine's memory, as far as documents may have it."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import torch

from app.config import ServerConfig
from common.machine import available_bytes
from engine.residents.limits import CPU_SHARE, GPU_SHARE, GPU_SLACK_BYTES, HOST_SHARE


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

    def rooms(self, weight_bytes: int, config: ServerConfig) -> tuple[tuple[str, int], ...]:
        """Return by tier the bytes that documents may have beside a model of `weight_bytes`.

        Of a GPU it is an estimate: the server counts what is in use there.
        """
        if self.gpu is None:
            share = config.memory_share or CPU_SHARE
            device = int(share * max(0, self.host - weight_bytes))
            rooms = [("host memory", config.device_cache_bytes or device)]
            if config.host_cache_bytes:
                rooms.append(("more host memory", config.host_cache_bytes))
            return tuple(rooms)
        share = config.memory_share or GPU_SHARE
        device = max(0, int(share * self.gpu) - weight_bytes - GPU_SLACK_BYTES)
        host = config.host_cache_bytes
        return (
            ("GPU memory", config.device_cache_bytes or device),
            ("host memory", int(HOST_SHARE * self.host) if host is None else host),
        )


def free_disk_bytes(folder: Path) -> int:
    """Return what is free where a folder is or will be made."""
    place = folder.resolve()
    while not place.exists() and place != place.parent:
        place = place.parent
    return shutil.disk_usage(place).free


def read_memory(device: str) -> Memory:
    """Look at this machine's memory.

    Args:
        device: as of `LECTERN_DEVICE`.
    """
    has_gpu = device != "cpu" and torch.cuda.is_available()
    gpu = torch.cuda.get_device_properties(0).total_memory if has_gpu else None
    return Memory("cuda" if has_gpu else "cpu", available_bytes(), gpu)
