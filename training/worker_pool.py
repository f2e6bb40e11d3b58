"""Doing tasks in parallel processes, several of which may share a GPU."""

import multiprocessing as mp
import os
import queue
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch

Task = TypeVar("Task")
Result = TypeVar("Result")
Start = Callable[[str], Callable[[Task], Result]]  # called in each process with its device
_POLL_S, _ORPHAN_POLL_S = 0.02, 5.0


def devices_for(device: str, workers: int) -> list[str]:
    """A device for each of so many processes: the GPUs in turn, or the CPU."""
    if device == "cpu":
        return ["cpu"] * workers
    return [f"cuda:{place % torch.cuda.device_count()}" for place in range(workers)]


def run_tasks(
    tasks: Sequence[Task], start: Start[Task, Result], devices: Sequence[str]
) -> Iterator[tuple[Task, Result]]:
    """Do tasks in a process for each device, in this one if there is but one; in any order.

    Args:
        start: loads what a process needs and gives the function that does a task.
    Raises: RuntimeError if a process fails; its own message was printed before.
    """
    if len(devices) == 1:
        work = start(devices[0])
        yield from ((task, work(task)) for task in tasks)
        return
    context = mp.get_context("spawn")
    waiting: mp.Queue[Task | None] = context.Queue()
    done: mp.Queue[tuple[Task, Result]] = context.Queue()
    for item in (*tasks, *[None] * len(devices)):
        waiting.put(item)
    processes = [
        context.Process(target=_work, args=(start, device, waiting, done)) for device in devices
    ]
    for process in processes:
        process.start()
    try:
        for _ in tasks:
            yield _next(done, processes)
    finally:
        for process in processes:
            process.terminate()


def _work(
    start: Start[Task, Result],
    device: str,
    waiting: "mp.Queue[Task | None]",
    done: "mp.Queue[tuple[Task, Result]]",
) -> None:
    torch.set_num_threads(1)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    work = start(device)
    for task in _take(waiting):
        done.put((task, work(task)))


def _take(waiting: "mp.Queue[Task | None]") -> Iterator[Task]:
    """Tasks until there are no more, or the process that gave them is gone."""
    parent = os.getppid()
    while os.getppid() == parent:
        try:
            task = waiting.get(timeout=_ORPHAN_POLL_S)
        except queue.Empty:
            continue
        if task is None:
            return
        yield task


def _next(
    done: "mp.Queue[tuple[Task, Result]]", processes: Sequence[mp.process.BaseProcess]
) -> tuple[Task, Result]:
    while done.empty():
        if any(process.exitcode for process in processes):
            raise RuntimeError("a worker process failed; see its message above")
        time.sleep(_POLL_S)
    return done.get()
