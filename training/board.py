"""Examining documents: one after another, or in parallel processes, on all GPUs."""

import multiprocessing as mp
import os
import queue
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import torch
from tokenizers import Tokenizer

from training.cells import ARTICLE, PARAGRAPH, cells
from training.examiner import Examiner, Natural, Sheet, held_out_sources, shipped
from training.scoring import Mark
from training.tasks import Plan, Task, shipped_folders
from training.weights import load_weights


def examine(plan: Plan, tasks: Sequence[Task]) -> Iterator[tuple[Task, list[Mark]]]:
    """Examine documents, in parallel processes if the plan has several workers."""
    if plan.workers == 1:
        board = Board(plan, plan.device)
        for task in tasks:
            yield task, board.examine(task)
        return
    context = mp.get_context("spawn")
    waiting: mp.Queue[Task | None] = context.Queue()
    found: mp.Queue[tuple[Task, list[Mark]]] = context.Queue()
    for item in (*tasks, *[None] * plan.workers):
        waiting.put(item)
    processes = [
        context.Process(target=_work, args=(plan, _device(plan, place), waiting, found))
        for place in range(plan.workers)
    ]
    for process in processes:
        process.start()
    try:
        for _ in tasks:
            yield _next(found, processes)
    finally:
        for process in processes:
            process.terminate()


class Board:
    """Everything that a process needs to examine documents."""

    def __init__(self, plan: Plan, device: str) -> None:
        changes = {"rope_theta": plan.theta} if plan.theta else {}
        reader = load_weights(plan.weights, **changes).to(device)
        reader = reader.bfloat16() if device.startswith("cuda") else reader
        tokenizer = Tokenizer.from_file(str(plan.weights / "tokenizer.json"))
        self._examiner = Examiner(reader, tokenizer, held_out_sources(plan.data, tokenizer))
        self._natural = Natural(plan.data / "squad" / "train-v1.1.json.gz")
        self._cells = {cell.name: cell for cell in cells()}
        self._seed = plan.seed

    def examine(self, task: Task) -> list[Mark]:
        """Make a document with its questions, and mark the answers."""
        rng = Random(f"{task.cell} {task.length} {task.number} {self._seed}")
        return self._examiner.mark(self._sheet(task, rng))

    def _sheet(self, task: Task, rng: Random) -> Sheet:
        if task.cell in self._cells:
            return self._examiner.planted(self._cells[task.cell], task.length, rng)
        if task.cell == PARAGRAPH:
            return self._natural.paragraph(rng)
        return self._natural.article(rng) if task.cell == ARTICLE else shipped(_folder(task.cell))


def _work(
    plan: Plan,
    device: str,
    waiting: "mp.Queue[Task | None]",
    found: "mp.Queue[tuple[Task, list[Mark]]]",
) -> None:
    torch.set_num_threads(1)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    board = Board(plan, device)
    for task in _tasks(waiting):
        found.put((task, board.examine(task)))


def _tasks(waiting: "mp.Queue[Task | None]") -> Iterator[Task]:
    """Tasks until there are no more, or the process that gave them is gone."""
    parent = os.getppid()
    while os.getppid() == parent:
        try:
            task = waiting.get(timeout=5)
        except queue.Empty:
            continue
        if task is None:
            return
        yield task


def _next(
    found: "mp.Queue[tuple[Task, list[Mark]]]", processes: Sequence[mp.process.BaseProcess]
) -> tuple[Task, list[Mark]]:
    while found.empty():
        if any(process.exitcode for process in processes):
            raise RuntimeError("a process of the examination failed; see its message above")
        time.sleep(0.02)
    return found.get()


def _device(plan: Plan, place: int) -> str:
    return plan.device if plan.device == "cpu" else f"cuda:{place % torch.cuda.device_count()}"


def _folder(name: str) -> Path:
    """The folder of a document with questions of its own."""
    return next(folder for folder in shipped_folders() if folder.name == name)
