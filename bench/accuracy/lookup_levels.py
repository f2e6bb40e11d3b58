"""One level of lookup or two: which answers more questions right where both load as much.

    python -m bench.accuracy.lookup_levels --data DIR --workers 2

Documents are read once with all heads retrieval heads, calibrated for either number of levels, and
asked at every budget: facts planted in documents of 16K tokens, held-out excerpts planted there as
people wrote them, and SQuAD's questions about whole articles. The differences are of the same
questions, in pairs; what was loaded stands beside each. `exact` is told as well. The file grows
document by document.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from statistics import fmean
from typing import Any

from bench import RESULTS
from bench.accuracy.budgets import TASKS
from engine.config import LookupConfig
from engine.document.budget import EXACT, NO_CURVES
from engine.document.cache import DocumentCache
from engine.model.fingerprint import weights_fingerprint
from engine.model.head_plan import ALL
from precompute.calibrate import calibrate
from precompute.config import PrecomputeConfig
from reader import WEIGHTS
from training.eval_set import DocumentKey, EvalDocument, EvalSet
from training.eval_tasks import ARTICLE, EXCERPTS, HELD_OUT_NAME, OWN_LENGTH
from training.evaluator import Evaluator
from training.intervals import paired_normal, paired_wilson
from training.record import circumstances, write
from training.worker_pool import devices_for, run_tasks

PLANTED, NATURAL = "planted facts", "natural questions"
EXCERPT_TASK = f"{EXCERPTS}, {HELD_OUT_NAME}"
LEVELS = (1, 2)
BUDGETS = (0.05, 0.08, 0.15)
MAX_TOKENS = 64  # of an answer


@dataclass(frozen=True)
class LevelJob:
    """A document to be asked with either number of levels.

    Attributes:
        group: `PLANTED` or `NATURAL`.
        place: of the document in the run.
    """

    group: str
    place: int
    document: EvalDocument


@dataclass(frozen=True)
class LevelAnswer:
    """One answer.

    Attributes:
        group, place: of its document, as of `LevelJob`.
        number: of the question in it.
        levels: 0 for an answer at `exact`, which looks nothing up.
        loaded: share of full attention's bytes.
    """

    group: str
    place: int
    number: int
    levels: int
    budget: float
    right: bool
    f1: float
    loaded: float


def main() -> None:
    """Measure, print and write the result."""
    options = _parse()
    eval_set = EvalSet(options.model / "tokenizer.json", options.data, options.seed)
    jobs = list(_jobs(eval_set, options))
    start = partial(_start, options.model, tuple(options.budgets))
    answers: list[LevelAnswer] = []
    devices = devices_for(options.device, options.workers)
    for done, (_, more) in enumerate(run_tasks(jobs, start, devices), 1):
        answers += more
        result = {
            "benchmark": "lookup_levels",
            **circumstances(options.device, weights_fingerprint(options.model)),
            "document_tokens": options.tokens,
            "documents": done,
            "budgets": summarise(answers),
        }
        write("lookup_levels", result, options.out)
        print(f"{done} of {len(jobs)} documents", flush=True)


def summarise(answers: Sequence[LevelAnswer]) -> list[dict[str, Any]]:
    """A point for each budget and group of questions, and for both groups together."""
    points = []
    for budget in sorted({one.budget for one in answers if one.levels}):
        for group in (PLANTED, NATURAL, None):
            asked = [one for one in answers if group in (None, one.group)]
            if asked:
                points.append(_point(asked, budget) | {"questions": group or "all"})
    return points


def _point(asked: Sequence[LevelAnswer], budget: float) -> dict[str, Any]:
    found = {
        levels: sorted(
            (one for one in asked if (one.levels, one.budget) == (levels, budget)),
            key=lambda one: (one.place, one.number),
        )
        for levels in LEVELS
    }
    exact = [one for one in asked if not one.levels]
    one, two = ([int(each.right) for each in found[levels]] for levels in LEVELS)
    one_f1, two_f1 = ([each.f1 for each in found[levels]] for levels in LEVELS)
    return {
        "budget": budget,
        "n": len(one),
        "exact_match_full": fmean(each.right for each in exact),
        "f1_full": fmean(each.f1 for each in exact),
        "levels": {str(levels): _described(found[levels]) for levels in LEVELS},
        "two_minus_one": {
            "exact_match": fmean(two) - fmean(one),
            "exact_match_interval_95": paired_wilson(two, one),
            "f1": fmean(two_f1) - fmean(one_f1),
            "f1_interval_95": paired_normal(two_f1, one_f1),
            "two_alone_right": sum(b > a for a, b in zip(one, two, strict=True)),
            "one_alone_right": sum(a > b for a, b in zip(one, two, strict=True)),
        },
    }


def _described(answers: Sequence[LevelAnswer]) -> dict[str, float]:
    return {
        "exact_match": fmean(one.right for one in answers),
        "f1": fmean(one.f1 for one in answers),
        "loaded": fmean(one.loaded for one in answers),
    }


def _jobs(eval_set: EvalSet, options: argparse.Namespace) -> Iterator[LevelJob]:
    planted = eval_set.mixed(
        TASKS, num_tokens=options.tokens, count=options.documents, questions=options.questions
    )
    natural = [
        eval_set.document(DocumentKey(length, task, number))
        for number in range(options.natural)
        for task, length in ((EXCERPT_TASK, options.tokens), (ARTICLE, OWN_LENGTH))
    ]
    cut = [replace(one, questions=one.questions[: options.questions]) for one in natural]
    # Both kinds in turn, so that a run that ends early says something about each.
    pairs = zip_longest(((PLANTED, one) for one in planted), ((NATURAL, one) for one in cut))
    both = (one for pair in pairs for one in pair if one is not None)
    yield from (LevelJob(group, place, one) for place, (group, one) in enumerate(both))


def _start(
    weights: Path, budgets: tuple[float, ...], device: str
) -> Callable[[LevelJob], list[LevelAnswer]]:
    evaluator = Evaluator(weights, device=device, heads=ALL, max_tokens=MAX_TOKENS)
    return partial(_answers, evaluator, budgets)


def _answers(evaluator: Evaluator, budgets: tuple[float, ...], job: LevelJob) -> list[LevelAnswer]:
    read = evaluator.read(job.document.text)
    found = list(_ask(evaluator, read, job, 0, EXACT))
    for levels in LEVELS:
        document = _calibrated(evaluator, read, levels)
        for budget in budgets:
            found += _ask(evaluator, document, job, levels, budget)
    return found


def _calibrated(evaluator: Evaluator, read: DocumentCache, levels: int) -> DocumentCache:
    """The document for so many levels of lookup."""
    if levels == read.lookup.levels:
        return read
    settings = PrecomputeConfig(lookup=LookupConfig(levels=levels))
    bare = replace(read, lookup=settings.lookup, curves=NO_CURVES)
    return calibrate(evaluator.model, bare, settings, lambda _: None)


def _ask(
    evaluator: Evaluator, document: DocumentCache, job: LevelJob, levels: int, budget: float
) -> Iterator[LevelAnswer]:
    for number, question in enumerate(job.document.questions):
        said, score = evaluator.ask(document, question, budget)
        yield LevelAnswer(
            group=job.group,
            place=job.place,
            number=number,
            levels=levels,
            budget=budget,
            right=score.right,
            f1=score.f1,
            loaded=said.budget.loaded,
        )


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, default=WEIGHTS)
    parser.add_argument("--data", type=Path, required=True, help="holds books/ and squad/")
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--documents", type=int, default=15, help="of planted facts")
    parser.add_argument("--natural", type=int, default=8, help="of each kind of natural question")
    parser.add_argument("--questions", type=int, default=20, help="a document, at most")
    parser.add_argument("--budgets", type=float, nargs="+", default=BUDGETS)
    parser.add_argument("--seed", type=int, default=7, help="of the documents")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    return parser.parse_args()


if __name__ == "__main__":
    main()
