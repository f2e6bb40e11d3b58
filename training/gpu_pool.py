"""Running programs that need a GPU each: as many at once as there are GPUs."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue

import torch


@dataclass(frozen=True)
class GpuSlot:
    """Where a program runs.

    Attributes:
        environment: of the program; it shows it one GPU, where there are any.
        workers: processes that it may have besides itself, of this machine's cores.
    """

    environment: dict[str, str]
    workers: int


def run_on_gpus(jobs: Sequence[str], work: Callable[[str, GpuSlot], None]) -> None:
    """Call work(job, slot) for every job, as many at once as there are GPUs; one without any.

    Raises: what the work of a job raised, once all have ended.
    """
    slots: SimpleQueue[GpuSlot] = SimpleQueue()
    for slot in _slots():
        slots.put(slot)

    def run(job: str) -> None:
        slot = slots.get()
        try:
            work(job, slot)
        finally:
            slots.put(slot)

    with ThreadPoolExecutor(slots.qsize()) as pool:
        list(pool.map(run, jobs))


def _slots() -> list[GpuSlot]:
    count = torch.cuda.device_count()
    workers = max(1, (os.cpu_count() or 2) // max(1, count) - 2)
    shown = [{"CUDA_VISIBLE_DEVICES": str(place)} for place in range(count)] or [{}]
    return [GpuSlot(os.environ | one, workers) for one in shown]
