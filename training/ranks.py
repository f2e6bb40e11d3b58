"""Processes that train together: one a device, with equal weights and averaged gradients."""

import os
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.multiprocessing.spawn import start_processes


@dataclass(frozen=True)
class Rank:
    """This process among `size` that train together; without a group when it is alone.

    Attributes:
        device: where it computes, `cpu` or `cuda:N`.
    """

    place: int = 0
    size: int = 1
    device: str = "cpu"

    @property
    def leads(self) -> bool:
        """Whether this one keeps the clock, the log and the weights."""
        return self.place == 0

    def join(self) -> None:
        """Take the device and meet the others; call it after everything that forks."""
        if _has_gpu(self.device):
            torch.cuda.set_device(self.device)
        if self.size > 1:
            dist.init_process_group("cpu:gloo,cuda:nccl" if _has_gpu(self.device) else "gloo")

    def leave(self) -> None:
        """Part from the others."""
        if self.size > 1:
            dist.destroy_process_group()

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors by their means over all processes, in place."""
        if self.size == 1:
            return
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        dist.all_reduce(flat)
        flat /= self.size
        _put(flat, tensors)

    def share(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors by the first process's, in place."""
        if self.size == 1:
            return
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        dist.broadcast(flat, 0)
        _put(flat, tensors)

    def agree(self, number: float) -> float:
        """The first process's number."""
        if self.size == 1:
            return number
        shared = torch.tensor([number], dtype=torch.float64)
        dist.broadcast(shared, 0)
        return float(shared)


def launch(work: Callable[..., None], size: int, device: str, *arguments: Any) -> None:
    """Call work(rank, *arguments) in `size` processes; in this one if there is but one.

    Raises: torch.multiprocessing.ProcessRaisedException as soon as one of them fails.
    """
    if size == 1:
        work(Rank(device="cuda:0" if _has_gpu(device) else device), *arguments)
        return
    arguments = (work, size, device, _free_port(), arguments)
    start_processes(_start, arguments, size)  # type: ignore[no-untyped-call]


def _start(
    place: int,
    work: Callable[..., None],
    size: int,
    device: str,
    port: int,
    arguments: tuple[Any, ...],
) -> None:
    os.environ |= {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "RANK": str(place),
        "WORLD_SIZE": str(size),
        "GLOO_SOCKET_IFNAME": "lo",
        "NCCL_SOCKET_IFNAME": "lo",
    }
    work(Rank(place, size, f"cuda:{place}" if _has_gpu(device) else device), *arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    # At once: a thread of the group may outlive it, and what the interpreter then tears down aborts
    # the process now and then ("terminate called without an active exception").
    os._exit(0)


def _has_gpu(device: str) -> bool:
    return device.startswith("cuda")


def _put(flat: Tensor, tensors: Sequence[Tensor]) -> None:
    parts = torch.split(flat, [tensor.numel() for tensor in tensors])
    torch._foreach_copy_(
        list(tensors), [part.view_as(own) for part, own in zip(parts, tensors, strict=True)]
    )


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
