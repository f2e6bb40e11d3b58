"""Accuracy and bytes loaded at each budget, on questions that calibration never saw.

    python -m bench.budgets --data DIR --device cuda --workers 12

Documents of 16K tokens with planted facts are read once and asked at every budget; `exact` is the
baseline. Question prefill and decoding are counted apart. `--lookups all` also measures one-level
lookup and the other aggregations.
"""

import argparse
import multiprocessing
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from bench.facts import AskedDocument, draw_documents, is_exact
from bench.record import circumstances, write
from engine.answer import Answer, answer, open_question
from engine.artifact import pack, unpack
from engine.attention import forward
from engine.budget import EXACT
from engine.curve import EVERYTHING
from engine.document import DocumentCache, LookupConfig
from engine.model import LoadedModel, load_model
from engine.sampling import Sampling
from precompute.calibrate import calibrate
from precompute.read import read_document
from precompute.settings import ReadSettings

BUDGETS = (0.08, 0.145, 0.5)
HELD = (0.08, 0.5)  # the range in which loaded must follow requested
MOST = 0.15  # loaded, in the accuracy bar
LOOKUPS = tuple(
    LookupConfig(levels, aggregation)
    for levels in (2, 1)
    for aggregation in ("max_group_mean", "mean", "max")
)


@dataclass(frozen=True)
class Row:
    """One answer: whether it was right, and the shares of the cache's bytes that it loaded."""

    lookup: LookupConfig
    budget: float
    right: bool
    loaded: float
    prefill: float
    decode: float | None


def main() -> None:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default="reader/weights")
    parser.add_argument("--data", type=Path, required=True, help="prepared haystacks")
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--documents", type=int, default=20)
    parser.add_argument("--questions", type=int, default=16, help="a document")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--lookups", choices=("default", "all"), default="default")
    parser.add_argument("--out", type=Path, default=None, help="folder of the result")
    arguments = parser.parse_args()
    lookups = LOOKUPS if arguments.lookups == "all" else (ReadSettings().lookup,)
    documents = draw_documents(
        arguments.data,
        arguments.model,
        num_tokens=arguments.tokens,
        count=arguments.documents,
        questions=arguments.questions,
    )
    name = "budgets" if arguments.lookups == "default" else "lookups"
    rows: list[Row] = []
    for done, more in enumerate(measure(arguments, documents, lookups), start=1):
        rows += more
        result = report(arguments, rows, lookups, done)
        path = write(name, result, *([arguments.out] if arguments.out else []))
        print(f"{done} of {len(documents)} documents: {path}", flush=True)


def report(
    arguments: argparse.Namespace,
    rows: Sequence[Row],
    lookups: Sequence[LookupConfig],
    num_documents: int,
) -> dict[str, Any]:
    """The result after some documents; it grows until the last one."""
    return {
        "benchmark": "budgets",
        **circumstances(arguments.device),
        "document_tokens": arguments.tokens,
        "documents": num_documents,
        "questions": num_documents * arguments.questions,
        **summary([row for row in rows if row.lookup == ReadSettings().lookup]),
        "lookups": [
            {
                "levels": lookup.levels,
                "aggregation": lookup.aggregation,
                **summary([row for row in rows if row.lookup == lookup]),
            }
            for lookup in lookups
        ],
    }


def measure(
    arguments: argparse.Namespace,
    documents: Sequence[AskedDocument],
    lookups: Sequence[LookupConfig],
) -> Iterator[list[Row]]:
    """Ask every document's questions at every budget, documents in parallel processes."""
    work = partial(ask_document, path=arguments.model, device=arguments.device, lookups=lookups)
    if arguments.workers == 1:
        yield from map(work, documents)
        return
    with multiprocessing.get_context("spawn").Pool(arguments.workers) as pool:
        yield from pool.imap_unordered(work, documents)


def ask_document(
    document: AskedDocument, *, path: str, device: str, lookups: Sequence[LookupConfig]
) -> list[Row]:
    """Read one document, store and load it, check it, and ask it in every way."""
    torch.set_num_threads(1)
    model = load_model(path, device=device)
    pages = [(1, 0, len(document.text))]
    settings = ReadSettings()
    read = read_document(model, document.text, pages, settings, lambda *_: None)
    manifest, files = pack(read, settings.dtype)
    stored = unpack(manifest, files, device=model.device, dtype=model.dtype)
    check(model, stored, document)
    rows = ask_all(model, stored, document, settings.lookup, (EXACT, *BUDGETS))
    for lookup in lookups:
        if lookup != settings.lookup:
            bare = replace(stored, lookup=lookup, curves=EVERYTHING)
            other = calibrate(model, bare, replace(settings, lookup=lookup), lambda _: None)
            exact = (replace(row, lookup=lookup) for row in rows if row.budget == EXACT)
            rows = [*rows, *exact, *ask_all(model, other, document, lookup, BUDGETS)]
    return rows


def check(model: LoadedModel, document: DocumentCache, asked: AskedDocument) -> None:
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
    model: LoadedModel,
    document: DocumentCache,
    asked: AskedDocument,
    lookup: LookupConfig,
    budgets: Iterable[float],
) -> list[Row]:
    """A row a question and budget."""
    rows = []
    for budget in budgets:
        for question in asked.questions:
            *_, last = answer(
                model,
                document,
                question.text,
                budget=budget,
                sampling=Sampling(max_tokens=64),
            )
            if not isinstance(last, Answer):
                raise SystemExit("An answer did not end.")
            report = last.budget
            decode = report.loaded_decode if last.usage.completion_tokens > 0 else None
            right = is_exact(last.text, question.answer)
            rows.append(Row(lookup, budget, right, report.loaded, report.loaded_prefill, decode))
    return rows


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Exact match and shares loaded at each budget, and the figures of the bars."""
    points = [_point([row for row in rows if row.budget == b], b) for b in (*BUDGETS, EXACT)]
    exact = points[-1]["exact_match"]
    low_enough = [point for point in points if point["loaded"] <= MOST]
    best = max(low_enough, key=lambda point: point["loaded"])
    held = [point for point in points if HELD[0] <= point["requested"] <= HELD[1]]
    return {
        "exact_match_full": exact,
        "relative_exact_match": best["exact_match"] / exact,
        "relative_exact_match_loaded": best["loaded"],
        "largest_deviation_prefill": max(_deviation(point, "loaded_prefill") for point in held),
        "largest_deviation_decode": max(_deviation(point, "loaded_decode") for point in held),
        "points": points,
    }


def _point(rows: Sequence[Row], budget: float) -> dict[str, Any]:
    decode = [row.decode for row in rows if row.decode is not None]
    return {
        "requested": budget,
        "n": len(rows),
        "exact_match": fmean(row.right for row in rows),
        "loaded": fmean(row.loaded for row in rows),
        "loaded_prefill": fmean(row.prefill for row in rows),
        "loaded_decode": fmean(decode) if decode else None,
    }


def _deviation(point: dict[str, Any], phase: str) -> float:
    return abs(float(point[phase]) / float(point["requested"]) - 1)


if __name__ == "__main__":
    main()
