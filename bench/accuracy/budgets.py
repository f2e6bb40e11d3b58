"""Accuracy and bytes loaded at each budget, on questions that calibration never saw.

    python -m bench.accuracy.budgets --data DIR --workers 15 --heads reader/weights/head_plan.json

Documents of 16K tokens with needles are read once and asked at every budget; `exact` with all heads
is the baseline. Both answer the same questions, so that differences have paired intervals; answers
are kept question by question. Question prefill and decoding are counted apart. `--heads` reads
every document a second time under a head plan, for lookup and dual caches together. `--lookups all`
also measures two-level lookup and the other aggregations. `bench.plots` draws the curves.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import nan
from pathlib import Path
from statistics import fmean
from typing import Any

from bench import RESULTS
from engine.attend.question import open_question
from engine.config import LookupConfig
from engine.document.artifact import pack, unpack
from engine.document.budget import EXACT, NO_CURVES
from engine.document.cache import DocumentCache
from engine.model.attention import forward
from engine.model.fingerprint import weights_fingerprint
from engine.model.head_plan import ALL, read_plan
from engine.model.loader import LoadedModel
from precompute.calibrate import calibrate
from precompute.config import PrecomputeConfig
from reader import WEIGHTS
from training.eval_set import EvalDocument, EvalSet
from training.evaluator import Evaluator
from training.intervals import paired_wilson, wilson
from training.record import circumstances, write
from training.worker_pool import devices_for, run_tasks

TASKS = ("single", "same attribute", "same entity")
MAX_TOKENS = 64  # of an answer
BUDGETS = (0.08, 0.11, 0.145, 0.157, 0.25, 0.5)
DUAL_BUDGETS = (0.02, 0.03, 0.04, 0.05, 0.08, 0.145)
HELD = (0.08, 0.5)  # the range in which loaded must follow requested
MOST = 0.15  # loaded, in the accuracy bar
DUAL_MOST, KEPT = 0.05, 0.95  # loaded and relative exact match, with dual caches
LOOKUPS = tuple(
    LookupConfig(levels, aggregation)
    for levels in (2, 1)
    for aggregation in ("max_group_mean", "mean", "max")
)


@dataclass(frozen=True)
class BudgetJob:
    """A document to be read under a head plan and asked in every way.

    Attributes:
        heads: the head plan's file, or "all".
        lookups: to be measured, the default first.
        place: of the document among those of the run.
    """

    document: EvalDocument
    place: int
    heads: str
    lookups: tuple[LookupConfig, ...]
    budgets: tuple[float, ...]


@dataclass(frozen=True)
class Row:
    """One answer: whether it was right, and the shares of full attention's bytes that it loaded.

    Attributes:
        heads: the head plan's file, or "all".
        asked: places of the document and of the question in it.
    """

    heads: str
    lookup: LookupConfig
    budget: float
    asked: tuple[int, int]
    right: bool
    loaded: float
    prefill: float
    decode: float | None


def main() -> None:
    """Measure, print and write the result."""
    options = _parse()
    default = PrecomputeConfig().lookup
    others = [one for one in LOOKUPS if one != default] if options.lookups == "all" else []
    name, lookups = "lookups" if others else "budgets", (default, *others)
    eval_set = EvalSet(options.model / "tokenizer.json", options.data, options.seed)
    documents = eval_set.mixed(
        TASKS, num_tokens=options.tokens, count=options.documents, questions=options.questions
    )
    alone = () if options.baseline_only else BUDGETS
    numbered = [(one, place) for place, one in enumerate(documents)]
    jobs = [BudgetJob(*one, ALL, lookups, (EXACT, *alone)) for one in numbered]
    for plan in options.heads:
        budgets = (*options.budgets, EXACT)
        jobs += [BudgetJob(*one, str(plan), lookups[:1], budgets) for one in numbered]
    rows: list[Row] = []
    devices = devices_for(options.device, options.workers)
    for done, (_, more) in enumerate(run_tasks(jobs, partial(_start, options.model), devices), 1):
        rows += more
        if not options.baseline_only and any(row.heads == ALL for row in rows):
            write(name, report(options, rows, lookups), options.out)
        if {ALL} < {row.heads for row in rows}:
            write("dual", report_dual(options, rows), options.out)
        print(f"{done} of {len(jobs)} documents", flush=True)


def report(
    options: argparse.Namespace, rows: Sequence[Row], lookups: Sequence[LookupConfig]
) -> dict[str, Any]:
    """The result without head plans, after some tasks; it grows until the last one."""
    plain = [row for row in rows if row.heads == ALL]
    default = [row for row in plain if row.lookup == lookups[0]]
    return {
        "benchmark": "budgets",
        **circumstances(options.device, weights_fingerprint(options.model)),
        "document_tokens": options.tokens,
        "documents": options.documents,
        "questions": sum(row.budget == EXACT for row in default),
        **summary(default),
        "lookups": [
            {
                "levels": lookup.levels,
                "aggregation": lookup.aggregation,
                **summary([row for row in plain if row.lookup == lookup]),
            }
            for lookup in lookups
        ],
    }


def report_dual(options: argparse.Namespace, rows: Sequence[Row]) -> dict[str, Any]:
    """The result under head plans."""
    full = [row for row in rows if row.heads == ALL and row.budget == EXACT]
    return {
        "benchmark": "dual",
        **circumstances(options.device, weights_fingerprint(options.model)),
        "document_tokens": options.tokens,
        "documents": options.documents,
        "questions": len(full),
        **dual_summary([row for row in rows if row.heads != ALL], full),
    }


def _start(weights: Path, device: str) -> Callable[[BudgetJob], list[Row]]:
    return partial(measure, weights=weights, device=device)


def measure(job: BudgetJob, *, weights: Path, device: str) -> list[Row]:
    """Read one document, store and load it, check it, and ask it in every way."""
    evaluator = Evaluator(weights, device=device, heads=job.heads, max_tokens=MAX_TOKENS)
    settings = PrecomputeConfig()
    model = evaluator.model
    manifest, files = pack(evaluator.read(job.document.text), settings.dtype)
    stored = unpack(manifest, files, device=model.device, dtype=model.dtype)
    check(model, stored, job.document)
    rows = list(ask_all(evaluator, stored, job, job.budgets))
    exact = [row for row in rows if row.budget == EXACT]
    for lookup in job.lookups[1:]:
        bare = replace(stored, lookup=lookup, curves=NO_CURVES)
        other = calibrate(model, bare, replace(settings, lookup=lookup), lambda _: None)
        rows += [replace(row, lookup=lookup) for row in exact]
        rows += ask_all(evaluator, other, job, [one for one in job.budgets if one != EXACT])
    return rows


def check(model: LoadedModel, document: DocumentCache, asked: EvalDocument) -> None:
    """A budget just below 1 must give the logits of `exact`, or no figure is given."""
    ids = model.prompt.encode_question(asked.questions[0].text).to(model.device)
    logits = []
    for budget in (EXACT, 0.999):
        state = open_question(document, budget)
        logits.append(forward(model.model, ids, state.position, state)[-1])
    worst = float((logits[0] - logits[1]).abs().max() / logits[0].abs().max())
    if not worst < 0.05:
        raise SystemExit(f"Logits at budget 0.999 differ by {worst:.2e} from exact ones.")


def ask_all(
    evaluator: Evaluator, document: DocumentCache, job: BudgetJob, budgets: Iterable[float]
) -> Iterator[Row]:
    """A row a question and budget."""
    for budget in budgets:
        for number, question in enumerate(job.document.questions):
            said, score = evaluator.ask(document, question, budget)
            yield Row(
                heads=job.heads,
                lookup=document.lookup,
                budget=budget,
                asked=(job.place, number),
                right=score.right,
                loaded=said.budget.loaded,
                prefill=said.budget.loaded_prefill,
                decode=said.budget.loaded_decode if said.usage.completion_tokens > 0 else None,
            )


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Exact match and shares loaded at each budget, and the figures of the bars."""
    points = _points(rows, [row for row in rows if row.budget == EXACT])
    exact = points[-1]["exact_match"]
    measured = [(point["loaded"], point["exact_match"]) for point in points]
    loaded, best = max((one for one in measured if one[0] <= MOST), default=(nan, nan))
    held = [point for point in points if HELD[0] <= point["requested"] <= HELD[1]]
    return {
        "exact_match_full": exact,
        "relative_exact_match": best / (exact or nan),
        "relative_exact_match_loaded": loaded,
        "largest_deviation_prefill": max(_deviation(point, "loaded_prefill") for point in held),
        "largest_deviation_decode": max(_deviation(point, "loaded_decode") for point in held),
        "points": points,
    }


def dual_summary(rows: Sequence[Row], full: Sequence[Row]) -> dict[str, Any]:
    """The same under head plans, against full attention in all heads.

    The best trade-offs found: what is kept at `DUAL_MOST` of full attention's bytes at most, and
    the fewest bytes that keep `KEPT`.

    Args:
        full: the baseline's answers.
    """
    exact = fmean(row.right for row in full)
    plans = [
        _plan_summary([row for row in rows if row.heads == heads], full)
        for heads in dict.fromkeys(row.heads for row in rows)
    ]
    points = [(p["loaded"], p["relative_exact_match"]) for plan in plans for p in plan["points"]]
    few = [kept for loaded, kept in points if loaded <= DUAL_MOST]
    good = [loaded for loaded, kept in points if kept >= KEPT]
    return {
        "exact_match_full": exact,
        "at_most_loaded": DUAL_MOST,
        "relative_exact_match": max(few, default=nan),
        "kept": KEPT,
        "least_loaded_that_keeps": min(good, default=nan),
        "plans": plans,
    }


def _plan_summary(rows: Sequence[Row], full: Sequence[Row]) -> dict[str, Any]:
    plan, exact = read_plan(Path(rows[0].heads)), fmean(row.right for row in full)
    return {
        "method": plan.method,
        "ratio": plan.ratio,
        "points": [
            {**point, "relative_exact_match": point["exact_match"] / (exact or nan)}
            for point in _points(rows, full)
        ],
    }


def _points(rows: Sequence[Row], full: Sequence[Row]) -> list[dict[str, Any]]:
    """A point a budget, rising.

    Args:
        full: the baseline's answers to the same questions.
    """
    budgets = sorted({row.budget for row in rows})
    return [
        _point([row for row in rows if row.budget == budget], full, budget) for budget in budgets
    ]


def _point(rows: Sequence[Row], full: Sequence[Row], budget: float) -> dict[str, Any]:
    decode = [row.decode for row in rows if row.decode is not None]
    by_question = {row.asked: row.right for row in rows}
    baseline = {row.asked: row.right for row in full}
    both = sorted(by_question.keys() & baseline.keys())  # a growing result may lack some
    ours, theirs = ([right[one] for one in both] for right in (by_question, baseline))
    return {
        "requested": budget,
        "n": len(rows),
        "exact_match": fmean(row.right for row in rows),
        "interval_95": wilson(sum(row.right for row in rows), len(rows)),
        "paired_difference": fmean(ours) - fmean(theirs) if both else None,
        "paired_interval_95": paired_wilson(ours, theirs) if both else None,
        "loaded": fmean(row.loaded for row in rows),
        "loaded_prefill": fmean(row.prefill for row in rows),
        "loaded_decode": fmean(decode) if decode else None,
        "by_question": {
            "asked": [list(one) for one in sorted(by_question)],
            "right": [int(by_question[one]) for one in sorted(by_question)],
        },
    }


def _deviation(point: dict[str, Any], phase: str) -> float:
    return abs(float(point[phase]) / float(point["requested"]) - 1)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, default=WEIGHTS)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds books/")
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--documents", type=int, default=15)
    parser.add_argument("--questions", type=int, default=20, help="a document")
    parser.add_argument("--heads", type=Path, nargs="*", default=[], help="head plans' files")
    parser.add_argument(
        "--budgets", type=float, nargs="+", default=DUAL_BUDGETS, help="to ask for under a plan"
    )
    parser.add_argument(
        "--baseline-only", action="store_true", help="without a plan, answer at `exact` alone"
    )
    parser.add_argument("--seed", type=int, default=7, help="of the documents")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--lookups", choices=("default", "all"), default="default")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    options = parser.parse_args()
    if options.baseline_only and not options.heads:
        parser.error("--baseline-only is for a comparison with --heads: alone it writes nothing")
    return options


if __name__ == "__main__":
    main()
