"""Decoding of many answers about several documents by the engine, on one GPU.

    python -m bench.serving.batches --out DIR

Llama-3-8B's shape with random weights in bf16, all heads retrieval heads, synthetic documents
(`bench.serving.synthetic`) at budgets that leave out 90 % of the clustered tokens, or `exact`. Each
row is an answer of its own; a step's time is from step to step of `Engine.step`, sampling and the
wait for tokens included. Beside it, in the same run, one answer in the decode graph of its
document. Rows have figures only if logits in a crowd are those alone up to rounding, and what is
read is the same.
"""

import argparse
import gc
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bench import RESULTS
from bench.random_llama import SEED, SHAPES
from bench.serving.synthetic import draw_document, draw_model
from bench.serving.synthetic_question import budget_of, calibrated
from bench.timing import WrongResult, copy_bandwidth
from engine.config import DecodeConfig
from engine.decode.running_answer import RunningAnswer
from engine.decode.sampling import Sampling
from engine.document.budget import EXACT
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.model.loader import LoadedModel
from training.record import circumstances, drawn, percentiles, write

DEVICE = "cuda"
# Tokens of documents, how many, and how many rows ask about each.
MIXES = ((131_072, 1, (1, 7, 16, 64)), (65_536, 4, (1, 4)))
STEPS, WARM_STEPS = 32, 4
QUESTION_WORDS = 48
TOLERANCE = 0.05  # relative distance of logits in a crowd and alone, in bf16 through random layers
READ_TOLERANCE = 0.02  # relative: rounding moves clusters over the threshold


def main() -> None:
    """Check, measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--uncompiled", action="store_true", help="do not compile layers")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    arguments = parser.parse_args()
    model = draw_model(SHAPES["llama3_8b"], 131_072 + 4096, streaming=False, device=DEVICE)
    rows: list[dict[str, Any]] = []
    result: dict[str, Any] = {
        "benchmark": "batches",
        "about": circumstances(DEVICE, drawn("llama3_8b", SEED)),
        "compiled_layers": not arguments.uncompiled,
        "copy_bytes_per_s": copy_bandwidth(),
        "rows": rows,
    }
    config = DecodeConfig(compiled_layers=not arguments.uncompiled)
    with Engine(model, config) as engine:
        started = time.perf_counter()
        engine.runner.warm_up()
        torch.cuda.synchronize()
        result["warm_up_s"] = time.perf_counter() - started
        print(f"warm-up {result['warm_up_s']:.1f} s", flush=True)
        for num_tokens, count, askers in MIXES:
            first = calibrated(model, draw_document(model, num_tokens))
            documents = [first] + [
                _like(first, draw_document(model, num_tokens)) for _ in range(count - 1)
            ]
            for asked in askers:
                for budget in (budget_of(first), EXACT):
                    if budget == EXACT and asked * count > 16:
                        continue
                    found = measure(engine, documents, asked, budget)
                    rows.append({"num_tokens": num_tokens, "documents": count, **found})
                    for name in ("logits_apart", "read_apart"):
                        result[f"most_{name}"] = max(row[name] for row in rows)
                    print(told(rows[-1]), flush=True)
                    write("batches", result, arguments.out)
            if count == 1:
                result["alone"] = measure_alone(model, first)
                print("in its document's graph:", told(result["alone"]), flush=True)
            path = write("batches", result, arguments.out)
            del first, documents
            gc.collect()
            torch.cuda.empty_cache()
    print(f"written to {path}")


def measure(
    engine: Engine, documents: list[DocumentCache], asked: int, budget: float
) -> dict[str, Any]:
    """Time steps of `asked` rows about each of the documents."""
    rows = [
        start(engine, document, index, budget)
        for index, document in enumerate(document for document in documents for _ in range(asked))
    ]
    started = time.perf_counter()
    for row in rows:
        engine.step([row])
    prefill_ms = (time.perf_counter() - started) * 1e3 / len(rows)
    apart, read_apart = 0.0, 0.0
    if len(rows) > 1:
        apart, read_apart = check(engine, rows, documents, asked, budget)
    for _ in range(WARM_STEPS):
        engine.step(rows)
    samples = []
    for _ in range(STEPS):
        started = time.perf_counter()
        engine.step(rows)
        samples.append((time.perf_counter() - started) * 1e3)
    for row in rows:
        engine.finish(row)
    step = percentiles(samples)
    return {
        "rows": len(rows),
        "budget": budget,
        "loaded": sum(row.state.meter.share(1) for row in rows) / len(rows),
        "prefill_ms": prefill_ms,
        "step_ms": step,
        "tokens_per_s": 1e3 * len(rows) / step["p50"],
        "logits_apart": apart,
        "read_apart": read_apart,
    }


def check(
    engine: Engine, rows: list[RunningAnswer], documents: list[DocumentCache], asked: int,
    budget: float,
) -> tuple[float, float]:  # fmt: skip
    """Take a step together, and the last row's alone.

    Returns: how far apart logits are, and what was read of the document; both relative.
    Raises: WrongResult where they are further apart than rounding.
    """
    index = len(rows) - 1
    alone = start(engine, documents[index // asked], index, budget)
    engine.step([alone])
    alone.answer[-1] = rows[index].answer[-1]
    together = engine.runner.decode(rows)[index].clone()
    single = engine.runner.decode([alone])[0].clone()
    apart = float((together - single).norm() / single.norm())
    token = int(single.argmax())
    for row in (*rows, alone):
        row.push(token)
    engine.finish(alone)
    read, read_alone = (float(one.state.meter.read[1]) for one in (rows[index], alone))
    read_apart = abs(read - read_alone) / read_alone
    if not apart < TOLERANCE or read_apart > READ_TOLERANCE:
        raise WrongResult(f"a row's logits in a crowd differ by {apart:.4f}, reads by {read_apart}")
    return apart, read_apart


def measure_alone(model: LoadedModel, document: DocumentCache) -> dict[str, Any]:
    """The same for one answer in its document's graph."""
    with Engine(model, DecodeConfig(batch_graphs=False)) as engine:
        return measure(engine, [document], 1, budget_of(document))


def start(engine: Engine, document: DocumentCache, index: int, budget: float) -> RunningAnswer:
    """A question that no other row asks."""
    generator = torch.Generator().manual_seed(index)
    words = torch.randint(100, 999, (QUESTION_WORDS,), generator=generator).tolist()
    sampling = Sampling(max_tokens=256, ignore_eos=True)
    question = " ".join(map(str, words))
    return engine.start(document, question, budget=budget, sampling=sampling)


def told(row: dict[str, Any]) -> str:
    """One line."""
    return (
        f"{row.get('documents', 1)} documents, {row['rows']} rows, budget {row['budget']:.3f} "
        f"(loaded {row['loaded']:.3f}): {row['step_ms']['p50']:.2f} ms a step, "
        f"{row['tokens_per_s']:.0f} tokens/s; prefill {row['prefill_ms']:.1f} ms, "
        f"logits apart {row['logits_apart']:.4f}"
    )


def _like(calibrated_one: DocumentCache, other: DocumentCache) -> DocumentCache:
    return replace(other, curves=calibrated_one.curves)


if __name__ == "__main__":
    main()
