"""Whether questions of any length load what was asked for, and are never slower than at `exact`.

    python -m bench.accuracy.question_lengths --data DIR

The bundled reader reads 16K tokens of a book, under its own head plan and with all heads retrieval
heads, and is asked in questions of 8 to 2,048 tokens, out of that book and out of another one:
prefill and decoding are told apart. Then the time to the first token at .15 and .5 is held against
that at `exact`, in turns (a CPU; one thread unless more are asked for, its processor time).
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from bench import RESULTS
from bench.accuracy.loaded import ask_at, describe_loaded, without_end
from bench.serving.first_token import document_of
from engine.config import ModelConfig
from engine.decode.sampling import Sampling
from engine.document.budget import BALANCED, EXACT
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.model.fingerprint import weights_fingerprint
from engine.model.head_plan import ALL
from engine.model.loader import DEFAULT_PLAN, LoadedModel, load_model
from precompute.build import precompute_document
from precompute.config import PrecomputeConfig
from reader import WEIGHTS
from training.data.split import HELD_OUT_BOOKS
from training.prepare import read_books
from training.record import circumstances, write
from training.worker_pool import devices_for, run_tasks

BUDGETS = (0.08, BALANCED, 0.2)
TIMED = {"balanced": BALANCED, "half": 0.5}
LENGTHS = (8, 32, 128, 512, 1102, 2048)  # 1,102 tokens were slower than `exact` once


@dataclass(frozen=True)
class PlanJob:
    """A head plan under which the book is read and asked."""

    heads: str


def main(given: Sequence[str] | None = None) -> None:
    """Measure, print and write the result."""
    options = _parse(given)
    torch.set_num_threads(options.threads)
    plans: dict[str, dict[str, Any]] = {}
    jobs = [PlanJob(heads) for heads in options.heads]
    start, devices = partial(_start, options), devices_for("cpu", options.workers)
    for job, found in run_tasks(jobs, start, devices):
        plans[job.heads] = found
        print(f"{job.heads}: {found['largest_deviation']:.3f} off, {found['slowest']}", flush=True)
        result = {
            "benchmark": "question_lengths",
            **circumstances("cpu", weights_fingerprint(options.model)),
            "document_tokens": options.tokens,
            "threads": options.threads,
            **{
                name: max(one[name] for one in plans.values())
                for name in (
                    "largest_deviation_prefill",
                    "largest_deviation_decode",
                    "slowest",
                    "slowest_of_1102_tokens_at_balanced",
                )
            },
            "plans": plans,
        }
        write("question_lengths", result, options.out)


def _start(options: argparse.Namespace, device: str) -> Callable[[PlanJob], dict[str, Any]]:
    own, other = read_books(options.data, HELD_OUT_BOOKS[:2]).values()

    def work(job: PlanJob) -> dict[str, Any]:
        model = load_model(ModelConfig(str(options.model), device=device, heads=job.heads))
        text = document_of(model, own, options.tokens)
        pages = [(1, 0, len(text))]
        document = precompute_document(model, text, pages, PrecomputeConfig(), lambda *_: None)
        asked = {
            length: (
                question_of(model, text[len(text) // 3 :], length),
                question_of(model, other, length),
            )
            for length in options.lengths
        }
        return measure(model, document, asked, options)

    return work


def measure(
    model: LoadedModel,
    document: DocumentCache,
    asked: dict[int, tuple[str, str]],
    options: argparse.Namespace,
) -> dict[str, Any]:
    """What questions load, length by length, and how long they take beside `exact`."""
    by_length, worst = {}, {"prefill": 0.0, "decode": 0.0}
    with Engine(without_end(model)) as engine:
        for length, questions in asked.items():
            rows = [
                ask_at(engine, document, question, budget)
                for budget in BUDGETS
                for question in questions
            ]
            found = describe_loaded(rows, document)
            found["times_exact"] = {
                name: times_exact(engine, document, questions[0], budget, options.repeats)
                for name, budget in TIMED.items()
            }
            by_length[str(length)] = found
            for phase, so_far in worst.items():
                worst[phase] = max(so_far, found[f"largest_deviation_{phase}"])
    ratios = {length: one["times_exact"] for length, one in by_length.items()}
    return {
        "floor": document.curves.floor,
        "largest_deviation": max(worst.values()),
        "largest_deviation_prefill": worst["prefill"],
        "largest_deviation_decode": worst["decode"],
        "slowest": max(ratio for one in ratios.values() for ratio in one.values()),
        "slowest_of_1102_tokens_at_balanced": ratios.get("1102", {"balanced": 0.0})["balanced"],
        "lengths": by_length,
    }


def times_exact(
    engine: Engine, document: DocumentCache, question: str, budget: float, repeats: int
) -> float:
    """Processor time to the first token over that at `exact`: the median of pairs in turn."""
    ratios = []
    for _ in range(repeats):
        exact, ours = (first_token_s(engine, document, question, one) for one in (EXACT, budget))
        ratios.append(ours / exact)
    return median(ratios)


def first_token_s(engine: Engine, document: DocumentCache, question: str, budget: float) -> float:
    """Seconds of processor time from a question's text to its first token."""
    began = time.process_time()
    running = engine.start(document, question, budget=budget, sampling=Sampling(max_tokens=1))
    engine.step([running])
    spent = time.process_time() - began
    engine.finish(running)
    return spent


def question_of(model: LoadedModel, text: str, num_tokens: int) -> str:
    """The beginning of a text that, with what a template adds, is a question of that length."""
    extra = len(model.prompt.encode_question("a")) - 1
    encoded = model.prompt.encode_document(text[: 20 * num_tokens])
    start = len(model.prompt.head)
    return text[: int(encoded.offsets[start + max(0, num_tokens - extra - 1), 1])]


def _parse(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, default=WEIGHTS)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds books/")
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--heads", nargs="+", default=(DEFAULT_PLAN, ALL))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    return parser.parse_args(given)


if __name__ == "__main__":
    main()
