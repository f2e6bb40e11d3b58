"""Measure the reader: greedy free-running answers with 95 % intervals.

    python -m training.evaluate --data DIR --out bench/results/reader.json

Documents are made of the four books that neither the tokenizer nor the model has seen; names of
persons, places and things come from the side of the split that training never draws; SQuAD's
articles too. The documents that are shipped with the reader come last. DIR holds `books/` and
`squad/`. Documents are examined in parallel, on all GPUs; the result is written after each cell.
"""

import argparse
import json
import os
import platform
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch

from common.errors import InvalidInput
from reader import WEIGHTS
from training.board import examine
from training.data.split import HELD_OUT_BOOKS
from training.data.wordings import REFUSAL
from training.examiner import MAX_TOKENS, QUESTIONS_A_DOCUMENT
from training.report import false_refusals, has_every_cell, length_name, rows_of
from training.scoring import row_of
from training.tasks import FOLDER, Plan, Task, check_data

_WORKERS_A_GPU = 4


@dataclass(frozen=True)
class Step:
    """How far an evaluation has come.

    Attributes:
        done, total: documents.
        line: the row of the table that this document has completed, or nothing.
    """

    done: int
    total: int
    line: str


def evaluate(plan: Plan, out: Path) -> Iterator[Step]:
    """Measure, and write the table as it grows; gives a step a document.

    Raises: InvalidInput if the plan asks for what is not there.
    """
    result: dict[str, Any] = {"about": _about(plan), "cells": {}}
    if plan.goes_on:
        result["cells"] = earlier_rows(out, result["about"])
    there = {(row.cell, row.length) for row in rows_of(result)}
    tasks = [task for task in plan.tasks() if (task.cell, task.length) not in there]
    check_data(plan.data)
    open_tasks, marks = defaultdict(set), defaultdict(list)
    for task in tasks:
        open_tasks[task.cell, task.length].add(task)
    for done, (task, found) in enumerate(examine(plan, tasks), 1):
        place = task.cell, task.length
        open_tasks[place].remove(task)
        marks[place].append(found)
        line = ""
        if not open_tasks[place]:
            row = row_of([one for sheet in marks[place] for one in sheet], len(marks[place]))
            result["cells"].setdefault(task.cell, {})[length_name(task.length)] = row
            if has_every_cell(rows_of(result)):
                result["false_refusals"] = false_refusals(rows_of(result))
            write_result(result, out)  # a run that is cut off keeps what it has
            line = _line(task, row)
        yield Step(done, len(tasks), line)


def earlier_rows(file: Path, about: dict[str, Any]) -> dict[str, Any]:
    """The rows of an earlier run, by cell and length; none if there was no such run.

    Raises: InvalidInput if it ran otherwise, so that its rows would not belong to these.
    """
    if not file.is_file():
        return {}
    result: dict[str, Any] = json.loads(file.read_text())
    changed = [key for key in about if key != "date" and result["about"].get(key) != about[key]]
    if changed:
        raise InvalidInput(f"'{file}' is of a run with another {', '.join(changed)}: delete it.")
    rows: dict[str, Any] = result["cells"]
    return rows


def write_result(result: dict[str, Any], file: Path) -> None:
    """Write the table as JSON, at once or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_text(json.dumps(result, indent=1) + "\n")
    part.replace(file)


def _line(task: Task, row: dict[str, Any]) -> str:
    low, high = row["interval_95"]
    return (
        f"{task.cell:34} {length_name(task.length):>6} n={row['questions']:4} "
        f"{row['exact_match']:.3f} [{low:.3f}, {high:.3f}] refused {row['refused']:.3f} "
        f"F1 {row['f1']:.3f}"
    )


def _about(plan: Plan) -> dict[str, Any]:
    return {
        "program": "python -m training.evaluate",
        "decoding": "greedy, free-running; one question directly after the document",
        "measure": "exact match after case, whitespace and a final full stop; lists: every value "
        "named and no other; F1 of words as in SQuAD",
        "refusal": REFUSAL,
        "books": list(HELD_OUT_BOOKS),
        "seed": plan.seed,
        "questions_a_document": QUESTIONS_A_DOCUMENT,
        "answer_tokens": MAX_TOKENS,
        "rope_theta": plan.theta
        or json.loads((plan.weights / "config.json").read_text())["rope_theta"],
        "device": torch.cuda.get_device_name() if plan.device == "cuda" else "cpu",
        "machine": platform.machine(),
        "commit": _commit(),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "tokenizers": tokenizers.__version__,
            "numpy": np.__version__,
        },
        "dtype": "bfloat16" if plan.device == "cuda" else "float32",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def _commit() -> str:
    """The commit that ran; `BENCH_COMMIT` says it for a copy with an old history or none."""
    if named := os.environ.get("BENCH_COMMIT"):
        return named
    try:
        found = subprocess.run(
            ["git", "-C", str(FOLDER), "rev-parse", "--short=12", "HEAD"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()


def choose_device(name: str) -> str:
    """The device that a name means; `auto` is the GPU if there is one.

    Raises: InvalidInput if there is none by that name here.
    """
    found = "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("auto", "cpu", found):
        raise InvalidInput(f"This machine has no device '{name}'.")
    return found if name == "auto" else name


def default_workers(device: str) -> int:
    """Processes that keep the GPUs busy; one on a CPU, where each takes every core."""
    return 1 if device == "cpu" else _WORKERS_A_GPU * torch.cuda.device_count()


def main() -> None:
    """Parse the command line, evaluate, write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=Path, default=WEIGHTS)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--workers", type=int, help="processes, spread over the GPUs")
    parser.add_argument("--cells", default="", help="names with ; between them; all if none")
    parser.add_argument("--lengths", default="", help="tokens with , between them; all if none")
    parser.add_argument("--questions", type=int, default=200, help="at least, in each cell")
    parser.add_argument("--theta", type=float, help="rotary base, if not the weights' own")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--go-on", action="store_true", help="keep what an earlier run wrote")
    options = parser.parse_args()
    plan = Plan(
        weights=options.weights,
        data=options.data,
        device=options.device,
        cells=tuple(name.strip() for name in options.cells.split(";") if name.strip()),
        lengths=tuple(int(length) for length in options.lengths.split(",") if length),
        questions=options.questions,
        seed=options.seed,
        theta=options.theta,
        workers=options.workers or default_workers(options.device),
        goes_on=options.go_on,
    )
    for step in evaluate(plan, options.out):
        if step.line:
            print(step.line, flush=True)


if __name__ == "__main__":
    main()
