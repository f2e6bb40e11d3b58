"""Whether the budget `auto` keeps its tolerance, on questions that calibration never saw.

    python -m bench.accuracy.auto_budget --data DIR --documents 100 --workers 2

Documents of 16K tokens with needles are read once and asked at `auto`; what is answered wrong there
is asked at `exact`, too. What a document loses is the share of its questions that `exact` answers
right and `auto` does not; what `auto` answers right and `exact` would not does not count against
it. The tolerance is kept where a document loses no more than it: of 50 questions at .02, one.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from bench import RESULTS
from bench.accuracy.asking import Asked, ask_all
from bench.accuracy.loaded import share_of_all
from engine.decode.answer import Answer
from engine.decode.sampling import Sampling
from engine.document.budget import EXACT, TOLERANCE, AutoBudget, Budget
from engine.engine import Engine
from engine.model.fingerprint import weights_fingerprint
from reader import WEIGHTS
from training.data.facts import Question
from training.eval_set import EvalDocument, EvalSet
from training.evaluator import Evaluator
from training.intervals import wilson
from training.record import circumstances, write
from training.scoring import score
from training.worker_pool import devices_for, run_tasks

TASKS = ("single", "same attribute", "same entity")
MAX_TOKENS = 64


@dataclass(frozen=True)
class AutoRow:
    """One document.

    Attributes:
        chosen: the budget; predicted: its loss by calibration, None where that is not known.
        loaded: what was read, over what `exact` reads.
        right: share of the questions that `auto` answers right.
        lost: share of the questions that `exact` answers right and `auto` does not.
    """

    chosen: float
    predicted: float | None
    loaded: float
    right: float
    lost: float


def main(given: Sequence[str] | None = None) -> None:
    """Measure, print and write the result."""
    options = _parse(given)
    torch.set_num_threads(options.threads)
    eval_set = EvalSet(options.model / "tokenizer.json", options.data, options.seed)
    documents = eval_set.mixed(
        TASKS, num_tokens=options.tokens, count=options.documents, questions=options.questions
    )
    rows: list[AutoRow] = []
    start = partial(_start, options.model, options.tolerance)
    devices = devices_for(options.device, options.workers)
    for done, (_, row) in enumerate(run_tasks(documents, start, devices), 1):
        rows.append(row)
        print(f"{done} of {len(documents)} documents: {row}", flush=True)
        result = {
            "benchmark": "auto_budget",
            **circumstances(options.device, weights_fingerprint(options.model)),
            "document_tokens": options.tokens,
            "questions": options.questions,
            "tolerance": options.tolerance,
            **report(rows, options.tolerance),
        }
        write("auto_budget", result, options.out)


def report(rows: Sequence[AutoRow], tolerance: float) -> dict[str, Any]:
    """In how many documents the tolerance was kept, and in how many below `exact`."""
    keeps = [row.lost <= tolerance + 1e-9 for row in rows]
    below = [row.chosen < EXACT for row in rows]
    return {
        "documents": len(rows),
        "kept": fmean(keeps),
        "kept_interval_95": wilson(sum(keeps), len(rows)),
        "below_exact": fmean(below),
        "kept_below_exact": fmean(kept and lower for kept, lower in zip(keeps, below, strict=True)),
        "mean_lost": fmean(row.lost for row in rows),
        "mean_predicted": fmean(row.predicted or 0.0 for row in rows),
        "mean_loaded_of_exact": fmean(row.loaded for row in rows),
        "mean_right": fmean(row.right for row in rows),
        "rows": [vars(row) for row in rows],
    }


def _start(weights: Path, tolerance: float, device: str) -> Callable[[EvalDocument], AutoRow]:
    evaluator = Evaluator(weights, device=device, max_tokens=MAX_TOKENS)
    engine = Engine(evaluator.model)

    def work(given: EvalDocument) -> AutoRow:
        document = evaluator.read(given.text)

        def ask(questions: Sequence[Question], budget: Budget) -> list[Answer]:
            sampling = Sampling(max_tokens=MAX_TOKENS)
            asked = [Asked(document, one.text, budget, sampling) for one in questions]
            return ask_all(engine, asked)

        def is_right(question: Question, answer: Answer) -> bool:
            return score(question, answer.text).right

        questions = given.questions
        answers = ask(questions, AutoBudget(tolerance))
        wrong = [
            one for one, said in zip(questions, answers, strict=True) if not is_right(one, said)
        ]
        lost = list(map(is_right, wrong, ask(wrong, EXACT)))
        first = answers[0].budget
        loaded = fmean(answer.budget.loaded for answer in answers)
        return AutoRow(
            chosen=first.applied,
            predicted=first.predicted_loss,
            loaded=loaded / share_of_all(document),
            right=1 - len(wrong) / len(questions),
            lost=sum(lost) / len(questions),
        )

    return work


def _parse(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, default=WEIGHTS)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds books/")
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--questions", type=int, default=50, help="a document")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE)
    parser.add_argument("--seed", type=int, default=11, help="of the documents")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    return parser.parse_args(given)


if __name__ == "__main__":
    main()
