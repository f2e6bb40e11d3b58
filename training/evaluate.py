"""Measure the reader as it is served: greedy answers of the engine, with 95 % intervals.

    python -m training.evaluate --data DIR --out training/results/reader.json
    python -m training.evaluate --data DIR --heads all --budget exact \
        --out training/results/reader_full_attention.json
    python -m training.evaluate --data DIR --release --out training/results/release.json

Documents are made of the four books that neither the tokenizer nor the model has seen; names of
persons, places and things come from the side of the split that training never draws; SQuAD's
articles too. The fictional documents come last. DIR holds `books/` and `squad/`. Every document is
read once for all of its questions, in parallel processes on all GPUs; the result is written after
each task and length. `--release` measures the test set that is opened only for a release, and
nothing else.
"""

import argparse
import json
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from common.errors import InvalidInput
from engine.config import ModelConfig
from engine.document.budget import parse_budget
from engine.model.loader import DEFAULT_PLAN, load_model
from reader import WEIGHTS
from training.data.excerpt_split import EVALUATION, RELEASE
from training.data.facts import REFUSAL
from training.data.split import HELD_OUT_BOOKS
from training.eval_set import (
    FICTIONAL,
    QUESTIONS_A_DOCUMENT,
    QUESTIONS_A_PARAGRAPH,
    DocumentKey,
    EvalSet,
    check_data,
)
from training.eval_tasks import (
    ARTICLE,
    OWN_LENGTH,
    PARAGRAPH,
    EvalTask,
    eval_tasks,
    release_tasks,
)
from training.evaluator import MAX_TOKENS, Evaluator, settings_for
from training.record import circumstances
from training.report import false_refusals, has_every_task, length_name, rows_of
from training.scoring import Score, row_of
from training.worker_pool import devices_for, run_tasks

_WORKERS_A_GPU = 4
_NUMBERS = re.compile(r"\[\s+([^\[\]{}\"]+?)\s+\]")


@dataclass(frozen=True)
class EvalConfig:
    """What is to be measured, and how.

    Attributes:
        heads: a head plan's file, "all", or "default" for the plan in the model's folder.
        budget: "fast", "balanced", "exact" or a number in (0, 1].
        tasks: names, or none for all.
        lengths: in tokens, or none for all.
        questions: at least, of each task at each length.
        max_tokens: of an answer.
        workers: processes, spread over the GPUs.
        resume: keep the rows that an earlier run with the same settings has written.
        release: measure the test set that is opened only for a release, in place of all others.
    """

    weights: Path
    data: Path
    device: str = "cpu"
    heads: str = DEFAULT_PLAN
    budget: str = "balanced"
    tasks: tuple[str, ...] = ()
    lengths: tuple[int, ...] = ()
    questions: int = 200
    max_tokens: int = MAX_TOKENS
    seed: int = 1
    workers: int = 1
    resume: bool = False
    release: bool = False

    def documents(self) -> list[DocumentKey]:
        """All documents that are to be read, the longest first.

        Raises: InvalidInput if there are none, or a task or length is none of the table's.
        """
        known = _with_needles(release_tasks()) if self.release else self._known()
        _check("task", self.tasks, [name for name, _, _ in known])
        _check("length", self.lengths, [length for _, length, _ in known])
        keys = [
            DocumentKey(length, name, number)
            for name, length, most in known
            if name in (self.tasks or (name,)) and length in (self.lengths or (length,))
            for number in range(-(-self.questions // most))
        ]
        if not keys:
            raise InvalidInput("None of these tasks is measured at any of these lengths.")
        return sorted(keys, key=lambda key: (-key.length, key.task, key.number))

    def _known(self) -> list[tuple[str, int, int]]:
        """Every task and length that any evaluation may measure, and a document's questions."""
        natural = [
            (PARAGRAPH, OWN_LENGTH, QUESTIONS_A_PARAGRAPH),
            (ARTICLE, OWN_LENGTH, QUESTIONS_A_DOCUMENT),
        ]
        fictional = [(folder.name, OWN_LENGTH, self.questions) for folder in FICTIONAL]
        return [*_with_needles(eval_tasks()), *natural, *fictional]


@dataclass(frozen=True)
class Progress:
    """How far an evaluation has come.

    Attributes:
        done, total: documents.
        line: the row of the table that this document has completed, or nothing.
    """

    done: int
    total: int
    line: str


def evaluate(config: EvalConfig, out: Path) -> Iterator[Progress]:
    """Measure, and write the table as it grows.

    Raises: InvalidInput if what is asked for is not there, UnsupportedModel or HeadPlanRejected as
        `engine.model.load_model`.
    """
    keys = config.documents()
    check_data(config.data)
    result: dict[str, Any] = {"about": describe(config), "cells": {}}
    if config.resume:
        result["cells"] = earlier_rows(out, result["about"])
    there = {(row.task, row.length) for row in rows_of(result)}
    keys = [key for key in keys if (key.task, key.length) not in there]
    scores: dict[tuple[str, int], dict[DocumentKey, list[Score]]] = defaultdict(dict)
    wanted = defaultdict(list)
    for key in keys:
        wanted[key.task, key.length].append(key)
    done = run_tasks(keys, partial(_start, config), devices_for(config.device, config.workers))
    for number, (key, found) in enumerate(done, 1):
        place = key.task, key.length
        scores[place][key] = found
        line = ""
        if len(scores[place]) == len(wanted[place]):
            row = _row([scores[place][one] for one in wanted[place]])
            result["cells"].setdefault(key.task, {})[length_name(key.length)] = row
            if has_every_task(rows_of(result)):
                result["false_refusals"] = false_refusals(rows_of(result))
            write_result(result, out)  # a run that is cut off keeps what it has
            line = _line(key, row)
        yield Progress(number, len(keys), line)


def _start(config: EvalConfig, device: str) -> Callable[[DocumentKey], list[Score]]:
    """Load what a process needs; gives the function that scores a document."""
    budget = parse_budget(config.budget)
    evaluator = Evaluator(
        config.weights,
        device=device,
        heads=config.heads,
        settings=settings_for(budget),
        max_tokens=config.max_tokens,
    )
    eval_set = EvalSet(config.weights / "tokenizer.json", config.data, config.seed)
    return lambda key: evaluator.score(eval_set.document(key), budget)


def describe(config: EvalConfig) -> dict[str, Any]:
    """The head of a result: weights, head plan, budget, settings, documents, machine, commit."""
    model = load_model(ModelConfig(str(config.weights), device="cpu", heads=config.heads))
    budget = parse_budget(config.budget)
    return {
        "program": "python -m training.evaluate",
        "decoding": "the engine's, greedy; a document is read once, each question is asked alone",
        "measure": "exact match after case, whitespace and a final full stop; lists: every value "
        "named and no other; F1 of words as in SQuAD",
        "test_set": RELEASE if config.release else EVALUATION,
        "head_plan": {
            "method": model.plan.method,
            "retrieval_ratio": round(model.plan.ratio, 4),
            "fingerprint": model.plan.fingerprint,
        },
        "budget": budget,
        "read_settings": asdict(settings_for(budget)),
        "refusal": REFUSAL,
        "books": list(HELD_OUT_BOOKS),
        "seed": config.seed,
        "questions_a_document": QUESTIONS_A_DOCUMENT,
        "answer_tokens": config.max_tokens,
        "dtype": "float32" if config.device == "cpu" else "bfloat16",
        **circumstances(config.device, model.weights),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def earlier_rows(file: Path, about: dict[str, Any]) -> dict[str, Any]:
    """The rows of an earlier run, by task and length; none if there was no such run.

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
    """Write the table as JSON, a list of numbers on one line, at once or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    text = json.dumps(result, indent=1)
    part.write_text(_NUMBERS.sub(lambda found: f"[{' '.join(found[1].split())}]", text) + "\n")
    part.replace(file)


def _with_needles(tasks: Sequence[EvalTask]) -> list[tuple[str, int, int]]:
    return [(task.name, length, QUESTIONS_A_DOCUMENT) for task in tasks for length in task.lengths]


def _row(by_document: Sequence[list[Score]]) -> dict[str, Any]:
    return row_of([score for scores in by_document for score in scores], len(by_document))


def _line(key: DocumentKey, row: dict[str, Any]) -> str:
    low, high = row["interval_95"]
    return (
        f"{key.task:34} {length_name(key.length):>6} n={row['questions']:4} "
        f"{row['exact_match']:.3f} [{low:.3f}, {high:.3f}] refused {row['refused']:.3f} "
        f"F1 {row['f1']:.3f} loaded {row['loaded']:.3f}"
    )


def _check(noun: str, given: Sequence[Any], known: Sequence[Any]) -> None:
    """Raises: InvalidInput for what is not among what is known."""
    for one in given:
        if one not in known:
            listed = ", ".join(str(other) for other in dict.fromkeys(known))
            raise InvalidInput(f"The table has no {noun} '{one}'; it has: {listed}.")


def main() -> None:
    """Parse the command line, evaluate, write the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--weights", type=Path, default=WEIGHTS)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--heads", default=DEFAULT_PLAN, help="a plan's file, all or default")
    parser.add_argument("--budget", default="balanced", help="fast, balanced, exact or a share")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--workers", type=int, help="processes, spread over the GPUs")
    parser.add_argument("--tasks", default="", help="names with ; between them; all if none")
    parser.add_argument("--lengths", default="", help="tokens with , between them; all if none")
    parser.add_argument("--questions", type=int, default=200, help="at least, of each row")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--release", action="store_true", help="open the release's test set")
    parser.add_argument("--resume", action="store_true", help="keep what an earlier run wrote")
    options = parser.parse_args()
    on_cpu = options.device == "cpu"
    config = EvalConfig(
        weights=options.weights,
        data=options.data,
        device=options.device,
        heads=options.heads,
        budget=options.budget,
        tasks=tuple(name.strip() for name in options.tasks.split(";") if name.strip()),
        lengths=tuple(int(length) for length in options.lengths.split(",") if length),
        questions=options.questions,
        seed=options.seed,
        workers=options.workers or (1 if on_cpu else _WORKERS_A_GPU * torch.cuda.device_count()),
        resume=options.resume,
        release=options.release,
    )
    for progress in evaluate(config, options.out):
        if progress.line:
            print(progress.line, flush=True)


if __name__ == "__main__":
    main()
