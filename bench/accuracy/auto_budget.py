"""Whether the budget `auto` keeps its tolerance, on questions that calibration never saw.

    python -m bench.accuracy.auto_budget --data DIR --documents 100 --workers 2

Documents of 16K tokens with needles are read once, and each question is asked at `exact` and at
`auto`. What a document loses is how much fewer of its questions `auto` answers right; its tolerance
is kept where that is at most the tolerance, to the nearest question: of 20 questions at a tolerance
of .02 not one more may be wrong. Beside it stand the questions lost and gained apart, and the share
of answers that are others than at `exact`.
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
from engine.decode.answer import Answer
from engine.decode.sampling import Sampling
from engine.document.budget import EXACT, TOLERANCE, AutoBudget, Budget
from engine.engine import Engine
from engine.model.fingerprint import weights_fingerprint
from reader import WEIGHTS
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
        lost: share of the questions that `exact` answers right and `auto` does not.
        gained: the other way round.
        others: share of the answers that are not those at `exact`.
        exact_match: at `exact`.
    """

    chosen: float
    predicted: float | None
    loaded: float
    lost: float
    gained: float
    others: float
    exact_match: float


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
            **report(rows, options.tolerance, options.questions),
        }
        write("auto_budget", result, options.out)


def report(rows: Sequence[AutoRow], tolerance: float, questions: int) -> dict[str, Any]:
    """In how many documents the tolerance was kept, and in how many below `exact`."""
    allowed = tolerance + 0.5 / questions - 1e-9
    kept = sum(row.lost - row.gained <= allowed for row in rows)
    below = sum(row.chosen < EXACT for row in rows)
    return {
        "documents": len(rows),
        "kept": kept / len(rows),
        "kept_interval_95": wilson(kept, len(rows)),
        "below_exact": below / len(rows),
        "kept_below_exact": sum(
            row.lost - row.gained <= allowed and row.chosen < EXACT for row in rows
        )
        / len(rows),
        "mean_lost": fmean(row.lost for row in rows),
        "mean_gained": fmean(row.gained for row in rows),
        "mean_others": fmean(row.others for row in rows),
        "mean_predicted": fmean(row.predicted or 0.0 for row in rows),
        "mean_loaded_of_exact": fmean(row.loaded for row in rows),
        "exact_match": fmean(row.exact_match for row in rows),
        "rows": [vars(row) for row in rows],
    }


def _start(weights: Path, tolerance: float, device: str) -> Callable[[EvalDocument], AutoRow]:
    evaluator = Evaluator(weights, device=device, max_tokens=MAX_TOKENS)
    engine = Engine(evaluator.model)

    def work(given: EvalDocument) -> AutoRow:
        document = evaluator.read(given.text)

        def ask(budget: Budget) -> list[Answer]:
            sampling = Sampling(max_tokens=MAX_TOKENS)
            asked = [Asked(document, one.text, budget, sampling) for one in given.questions]
            return ask_all(engine, asked)

        answers = ask(EXACT), ask(AutoBudget(tolerance))
        pairs = list(zip(given.questions, *answers, strict=True))
        right = [
            (score(one, exact.text).right, score(one, auto.text).right)
            for one, exact, auto in pairs
        ]
        first = pairs[0][2].budget
        return AutoRow(
            chosen=first.applied,
            predicted=first.predicted_loss,
            loaded=fmean(auto.budget.loaded / exact.budget.loaded for _, exact, auto in pairs),
            lost=fmean(exact and not auto for exact, auto in right),
            gained=fmean(auto and not exact for exact, auto in right),
            others=fmean(exact.text != auto.text for _, exact, auto in pairs),
            exact_match=fmean(exact for exact, _ in right),
        )

    return work


def _parse(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, default=WEIGHTS)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds books/")
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--questions", type=int, default=20, help="a document")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE)
    parser.add_argument("--seed", type=int, default=11, help="of the documents")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    return parser.parse_args(given)


if __name__ == "__main__":
    main()
