"""Seats for programs that each need a GPU of their own: jobs take them in turns."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue

import torch


@dataclass(frozen=True)
class Seat:
    """Where a program runs.

    Attributes:
        environment: of the program; it shows it one GPU, where there are any.
        workers: processes that it may have besides itself, of this machine's cores.
    """

    environment: dict[str, str]
    workers: int


def take_seats(jobs: Sequence[str], work: Callable[[str, Seat], None]) -> None:
    """Call work(job, seat) for every job, as many at once as there are GPUs; one without any.

    Raises: what the work of a job raised, once all have ended.
    """
    seats: SimpleQueue[Seat] = SimpleQueue()
    for seat in _seats():
        seats.put(seat)

    def run(job: str) -> None:
        seat = seats.get()
        try:
            work(job, seat)
        finally:
            seats.put(seat)

    with ThreadPoolExecutor(seats.qsize()) as pool:
        list(pool.map(run, jobs))


def _seats() -> list[Seat]:
    count = torch.cuda.device_count()
    workers = max(1, (os.cpu_count() or 2) // max(1, count) - 2)
    shown = [{"CUDA_VISIBLE_DEVICES": str(place)} for place in range(count)] or [{}]
    return [Seat(os.environ | one, workers) for one in shown]
