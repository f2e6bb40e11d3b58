"""Exact match of the reader under head plans: method x ratio x document length, with controls.

    lectern heads find duo --set haystack=DIR --out duo.json
    python -m bench.accuracy.head_plans --data DIR --duo duo.json --device cuda

Documents with needles are read by the engine under each plan, and their questions answered greedily
at budget `exact`, so that the plan alone costs answers. Writes `heads.json` as it goes;
`bench.plots` draws it.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from bench import RESULTS
from bench.accuracy.plan_cases import (
    RATIOS,
    MeasuredMethod,
    cases,
    measure_methods,
    plan_of,
    plans_without_one,
)
from bench.accuracy.plan_summary import percent, summarise
from engine.config import ModelConfig
from engine.document.budget import EXACT
from engine.model.head_plan import ALL, HeadPlan, check_plan, plan_all, read_plan, write_plan
from engine.model.loader import LoadedModel, load_model
from reader import WEIGHTS
from training.eval_set import EvalDocument, EvalSet
from training.evaluator import Evaluator, settings_for
from training.record import circumstances, write
from training.scoring import Score
from training.worker_pool import devices_for, run_tasks

TASKS = ("single", "same attribute", "same entity")
COSTLY = 0.05  # points of exact match that a head alone may cost


@dataclass(frozen=True)
class PlanJob:
    """A document that is to be read under a plan.

    Attributes:
        plan: the plan's file.
        document: its place among the documents of the length.
    """

    plan: str
    document: int


def main() -> None:
    """Measure, print and write the result."""
    options = _parse()
    model = load_model(ModelConfig(str(options.model), device=options.device, heads=ALL))
    gates = read_plan(options.duo)
    check_plan(gates, model.spec, model.weights)
    methods = measure_methods(model, gates)
    result: dict[str, Any] = {
        "benchmark": "heads",
        **circumstances(options.device, model.weights),
        "documents": options.documents,
        "questions_a_document": options.questions,
        "seed": options.seed,
        "methods": {
            name: {"settings": one.measure.settings, "scores": one.measure.scores}
            for name, one in methods.items()
        },
        "alone": {},
        "rows": [],
    }
    for part in measure(model, methods, options):
        result |= part
        write("heads", result, options.out)


def measure(
    model: LoadedModel, methods: Mapping[str, MeasuredMethod], options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Parts of the result as they grow: every head alone, then the table, length by length."""
    rows: list[dict[str, Any]] = []
    eval_set = EvalSet(options.model / "tokenizer.json", options.data, options.seed)
    for length in options.lengths:
        documents = eval_set.mixed(
            TASKS, num_tokens=length, count=options.documents, questions=options.questions
        )
        if length == options.alone_at:
            yield {"alone": alone(model, methods, documents, options) | {"document_tokens": length}}
        tried = list(cases(model, methods, length))
        scores = score_plans([case.plan for case in tried], documents, options)
        rows += [case.row(length, found) for case, found in zip(tried, scores, strict=True)]
        for row in rows[-len(tried) :]:
            print(_line(row), flush=True)
        yield {"rows": rows, "summary": summarise(rows)}


def alone(
    model: LoadedModel,
    methods: Mapping[str, MeasuredMethod],
    documents: Sequence[EvalDocument],
    options: argparse.Namespace,
) -> dict[str, Any]:
    """What each KV head costs that streams alone, and which costly heads the duo plans leave out.

    All other heads are retrieval heads; it keeps sinks and window and no compensation token.
    """
    places = list(plans_without_one(model.spec))
    plans = [plan_all(model.spec), *(plan for *_, plan in places)]
    full, *others = score_plans(plans, documents, options)
    rows = [
        {
            "layer": layer,
            "head": head,
            "exact_match": _share(found),
            "cost": _share(full) - _share(found),
        }
        for (layer, head, _), found in zip(places, others, strict=True)
    ]
    left_out = {
        percent(ratio): missing_heads(rows, plan_of(model, methods, "duo", ratio))
        for ratio in RATIOS
    }
    return {
        "questions": len(full),
        "heads": rows,
        "left_out_by_duo": left_out,
        "num_left_out_by_duo": {ratio: len(heads) for ratio, heads in left_out.items()},
    }


def missing_heads(alone: Sequence[Mapping[str, Any]], plan: HeadPlan) -> list[list[int]]:
    """Costly heads, as [layer, head], that are no retrieval heads of the plan."""
    return [
        [row["layer"], row["head"]]
        for row in alone
        if row["cost"] > COSTLY and not plan.retrieval[row["layer"]][row["head"]]
    ]


def score_plans(
    plans: Sequence[HeadPlan], documents: Sequence[EvalDocument], options: argparse.Namespace
) -> list[list[Score]]:
    """The scores of all questions under each plan, in the documents' order."""
    with TemporaryDirectory() as folder:
        files = [str(Path(folder) / f"{place}.json") for place in range(len(plans))]
        for file, plan in zip(files, plans, strict=True):
            write_plan(plan, Path(file))
        jobs = [PlanJob(file, place) for file in files for place in range(len(documents))]
        start = partial(_start, options.model, documents)
        found = dict(run_tasks(jobs, start, devices_for(options.device, options.workers)))
    numbers = range(len(documents))
    return [
        [score for number in numbers for score in found[PlanJob(file, number)]] for file in files
    ]


def _start(
    weights: Path, documents: Sequence[EvalDocument], device: str
) -> Callable[[PlanJob], list[Score]]:
    """Gives the function that reads and asks; a model stays loaded as long as its plan is used."""
    loaded: dict[str, Evaluator] = {}

    def work(job: PlanJob) -> list[Score]:
        if job.plan not in loaded:
            loaded.clear()
            settings = settings_for(EXACT)
            loaded[job.plan] = Evaluator(weights, device=device, heads=job.plan, settings=settings)
        return loaded[job.plan].score(documents[job.document], EXACT)

    return work


def _share(scores: Sequence[Score]) -> float:
    return sum(score.right for score in scores) / len(scores)


def _line(row: Mapping[str, Any]) -> str:
    return (
        f"{row['document_tokens']:6} {row['method']:10} {row['ratio']:5.2f} "
        f"{len(row['retrieval_heads']):3} heads {row['variant']:22} {row['exact_match']:.3f}"
    )


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, default=WEIGHTS)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds books/")
    parser.add_argument("--duo", type=Path, required=True, help="a plan that duo wrote")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--workers", type=int, default=1, help="processes, spread over the GPUs")
    parser.add_argument("--lengths", type=int, nargs="+", default=[16_384, 4096, 32_768])
    parser.add_argument("--alone-at", type=int, default=16_384, help="length for single heads")
    parser.add_argument("--documents", type=int, default=15, help="of each length")
    parser.add_argument("--questions", type=int, default=20, help="of each document")
    parser.add_argument("--seed", type=int, default=7, help="of the documents")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
