"""Whether any text is read in proportion to its length, and asked at the budget that was asked for.

    python -m bench.accuracy.texts --data DIR

Texts of eleven kinds, 8,000 tokens each, are read by the bundled reader as it is served, each right
after English prose of as many tokens, and asked in words of their own at budgets from .08 to .5.
Times are told by the wall's clock and by the processor's; with several `--workers` every process
has one thread. A line of one megabyte of each of three kinds is given to the reader, too, and must
end ready, or with an error of one sentence, within the deadline of its job.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import torch

from bench import RESULTS
from bench.accuracy.loaded import ask_at, describe_loaded, without_end
from bench.accuracy.text_kinds import PIECES, draw_kind
from common.errors import LecternError
from engine.config import ModelConfig
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.model.fingerprint import weights_fingerprint
from engine.model.loader import LoadedModel, load_model
from precompute.build import precompute_document
from precompute.config import PrecomputeConfig
from precompute.cost import expected_reading_s
from reader import WEIGHTS
from training.data.split import HELD_OUT_BOOKS
from training.prepare import read_books
from training.record import circumstances, write
from training.worker_pool import devices_for, run_tasks
from workers.config import WorkerConfig

ENGLISH = "English prose"
ALIKE = "aaaa..."  # all of its keys are alike: what loads one cluster loads them all
TOKENS, QUESTIONS = 8000, 3
BUDGETS = (0.08, 0.15, 0.3, 0.5)
LONG_LINES = ("minified JSON", "one long line", ALIKE)
LONG_LINE_BYTES = 1_000_000


@dataclass(frozen=True)
class TextJob:
    """A kind of text, to be read and asked; or a long line of it, to be read alone."""

    kind: str
    is_line: bool = False


def main(given: Sequence[str] | None = None) -> None:
    """Measure, print and write the result."""
    options = _parse(given)
    jobs = [TextJob(kind, is_line=True) for kind in options.lines]
    jobs += [TextJob(kind) for kind in (*options.kinds, ENGLISH)]
    kinds: dict[str, dict[str, Any]] = {}
    lines: list[dict[str, Any]] = []
    devices = devices_for("cpu", options.workers)
    for job, found in run_tasks(jobs, partial(_start, options), devices):
        print(f"{job.kind}{', a line' * job.is_line}: {_shown(found)}", flush=True)
        if job.is_line:
            lines.append({"kind": job.kind, **found})
        else:
            kinds[job.kind] = found
            write("texts", summarise(options, kinds, lines), options.out)


def summarise(
    options: argparse.Namespace,
    kinds: Mapping[str, Mapping[str, Any]],
    lines: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """The result: each kind beside English prose, and the worst of all."""
    bound = [found for kind, found in kinds.items() if kind != ALIKE]
    return {
        "benchmark": "texts",
        **circumstances("cpu", weights_fingerprint(options.model)),
        "threads": 1 if options.workers > 1 else torch.get_num_threads(),
        "tokens": options.tokens,
        "largest_times_english": {
            clock: max(found["times_english"][clock] for found in kinds.values())
            for clock in ("wall", "processor")
        },
        **{
            name: max((found[name] for found in bound), default=None)
            for name in (
                "largest_deviation",
                "largest_deviation_prefill",
                "largest_deviation_decode",
            )
        },
        "exempt_from_the_deviation": ALIKE,
        "kinds": kinds,
        "lines": lines,
        "lines_without_an_end": sum(not line["ended_well"] for line in lines),
    }


def _start(options: argparse.Namespace, device: str) -> Callable[[TextJob], dict[str, Any]]:
    model = load_model(ModelConfig(str(options.model), device=device))
    read_timed(model, text_of(model, ENGLISH, options, tokens=500))  # warms up

    def work(job: TextJob) -> dict[str, Any]:
        if job.is_line:
            return give_line(model, job.kind, options.line_bytes)
        return measure(model, job.kind, options)

    return work


def measure(model: LoadedModel, kind: str, options: argparse.Namespace) -> dict[str, Any]:
    """Read a text of a kind after English prose, and ask it in its own words."""
    prose, base = read_timed(model, text_of(model, ENGLISH, options))
    text = text_of(model, kind, options)
    document, seconds = read_timed(model, text)
    per_token = prose.num_tokens / document.num_tokens  # a cut may cost a token
    draw = Random(kind)
    starts = [draw.randrange(max(1, len(text) - 60)) for _ in range(options.questions)]
    with Engine(without_end(model)) as engine:
        rows = [
            ask_at(engine, document, f"What is said about {text[start : start + 40]!r}?", budget)
            for budget in options.budgets
            for start in starts
        ]
    return {
        "tokens": document.num_tokens,
        "characters": len(text),
        "seconds": seconds,
        "english_seconds": base,
        "times_english": {clock: seconds[clock] / base[clock] * per_token for clock in base},
        **describe_loaded(rows, document),
    }


def read_timed(model: LoadedModel, text: str) -> tuple[DocumentCache, dict[str, float]]:
    """Read a text; the document, and seconds by the wall's clock and the processor's."""
    wall, processor = time.perf_counter(), time.process_time()
    document = precompute_document(
        model, text, [(1, 0, len(text))], PrecomputeConfig(), lambda *_: None
    )
    return document, {
        "wall": time.perf_counter() - wall,
        "processor": time.process_time() - processor,
    }


def text_of(
    model: LoadedModel, kind: str, options: argparse.Namespace, tokens: int | None = None
) -> str:
    """A text of a kind, cut where so many tokens end."""
    tokens = tokens or options.tokens
    if kind == ENGLISH:
        pieces: Iterator[str] = iter(read_books(options.data, HELD_OUT_BOOKS[:1]).values())
    else:
        pieces = draw_kind(kind)
    text = ""
    while more := "".join(islice(pieces, 1 + len(text) // 500)):  # twice as many each time
        text += more
        encoded = model.prompt.encode_document(text[: 20 * tokens])
        if len(encoded.ids) > tokens:
            return text[: max(1, int(encoded.offsets[tokens - 2, 1]))]
    raise SystemExit(f"The text of kind '{kind}' has fewer than {tokens} tokens.")


def give_line(model: LoadedModel, kind: str, num_bytes: int) -> dict[str, Any]:
    """Have a line of so many bytes read: how it ended, and how long a job might have taken."""
    text = ""
    pieces = draw_kind(kind)
    while len(text) < num_bytes:
        text += next(pieces).replace("\n", " ")
    line, config = text[:num_bytes], WorkerConfig()
    started = time.perf_counter()
    try:
        document = read_timed(model, line)[0]
        ending, expected = "ready", expected_reading_s(model, document.num_tokens)
    except LecternError as error:
        ending, expected = error.message, 0.0
    seconds = time.perf_counter() - started
    limit = config.deadline_base_s + config.deadline_factor * expected
    return {
        "bytes": len(line.encode()),
        "ending": ending,
        "seconds": seconds,
        "deadline_s": limit,
        "ended_well": seconds < limit,
    }


def _shown(found: Mapping[str, Any]) -> str:
    if "ending" in found:
        return f"{found['seconds']:.1f} s, {found['ending']}"
    ratio, worst = found["times_english"]["processor"], found["largest_deviation"]
    return f"{found['tokens']} tokens, {ratio:.2f} times English, loaded within {worst:.3f}"


def _parse(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, default=WEIGHTS)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds books/")
    parser.add_argument("--tokens", type=int, default=TOKENS)
    parser.add_argument("--questions", type=int, default=QUESTIONS, help="at each budget")
    parser.add_argument("--budgets", type=float, nargs="+", default=BUDGETS)
    parser.add_argument("--kinds", nargs="+", choices=PIECES, default=tuple(PIECES))
    parser.add_argument("--lines", nargs="*", choices=PIECES, default=LONG_LINES)
    parser.add_argument("--line-bytes", type=int, default=LONG_LINE_BYTES)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    return parser.parse_args(given)


if __name__ == "__main__":
    main()
