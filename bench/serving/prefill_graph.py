"""First tokens from whole prefills in CUDA graphs, beside attention that is launched, on one GPU.

    python -m bench.serving.prefill_graph --out DIR

Llama-3-8B's shape with random weights in bf16, all heads retrieval heads, a synthetic document of
128K tokens (`bench.serving.synthetic`), questions of several lengths at a budget that leaves out
90 % of the clustered tokens, and at `exact`. A time is that of `prefill` and of the wait for the
first token's number. Both ways are timed in the same run; there are figures only if they give the
same logits up to rounding, which random layers amplify, and read the same. At last several
questions are prefilled together, which must give what each gives alone.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench import RESULTS
from bench.random_llama import SEED, SHAPES
from bench.serving.synthetic import draw_document, draw_model
from bench.serving.synthetic_question import SPARSITY, aimed_share
from bench.timing import WrongResult
from engine.config import DecodeConfig
from engine.decode.batch_runner import BatchRunner
from engine.decode.running_answer import RunningAnswer
from engine.decode.sampling import Sampling
from engine.decode.torch_runner import TorchRunner
from engine.document.budget import EXACT, BudgetCurve, BudgetCurves, LayerSplit, Thresholds
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.fallbacks import Fallbacks
from engine.model.loader import LoadedModel
from training.record import circumstances, drawn, percentiles, write

DEVICE = "cuda"
NUM_TOKENS = 131_072
LENGTHS = (10, 64, 200, 500)  # tokens of questions, with the prompt around them, at most
CROWDS, CROWD_LENGTH = (1, 2, 4, 6), 64  # questions that are prefilled together; their tokens
REPEATS, WARM = 20, 3
TOLERANCE = 0.25  # relative distance of logits, in bf16 through random layers; of others it is 1.4
READ_TOLERANCE = 0.02  # relative: rounding moves clusters over the threshold


def main() -> None:
    """Check, measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--uncompiled", action="store_true", help="do not compile layers")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    arguments = parser.parse_args()
    model = draw_model(SHAPES["llama3_8b"], NUM_TOKENS + 4096, streaming=False, device=DEVICE)
    document = with_split(draw_document(model, NUM_TOKENS))
    fallbacks, rows, crowds = Fallbacks(), list[dict[str, Any]](), list[dict[str, Any]]()
    config = DecodeConfig(compiled_layers=not arguments.uncompiled)
    graphs = BatchRunner(model, config, max_rows=max(CROWDS), fallbacks=fallbacks)
    launched = TorchRunner(model)
    started = time.perf_counter()
    graphs.warm_up()
    torch.cuda.synchronize()
    result = {
        "benchmark": "prefill_graph",
        "about": circumstances(DEVICE, drawn("llama3_8b", SEED)),
        "compiled_layers": not arguments.uncompiled,
        "num_tokens": NUM_TOKENS,
        "warm_up_s": time.perf_counter() - started,
        "rows": rows,
        "crowds": crowds,
    }
    print(f"warm-up {result['warm_up_s']:.1f} s", flush=True)
    if any(fallbacks.counts().values()):
        raise WrongResult(f"some graphs were not captured: {fallbacks.counts()}")
    engines = [Engine(model, runner=runner) for runner in (graphs, launched)]
    for length in LENGTHS:
        question = question_of(model, length)
        for budget in (aimed_share(document), EXACT):
            rows.append(measure(engines, document, question, budget))
            print(rows[-1], flush=True)
            path = write("prefill_graph", result, arguments.out)
    for count in CROWDS:
        questions = [question_of(model, CROWD_LENGTH, seed=seed) for seed in range(count)]
        for budget in (aimed_share(document), EXACT):
            crowds.append(measure_crowd(engines[0], document, questions, budget))
            print(crowds[-1], flush=True)
            path = write("prefill_graph", result, arguments.out)
    print(f"written to {path}")


def with_split(document: DocumentCache) -> DocumentCache:
    """The document with curves by which a prefill spends its budget evenly on all layers."""
    share = aimed_share(document)
    curve = BudgetCurve((share,), (Thresholds(-7.0, -7.0),))  # by which no prefill goes
    split = LayerSplit((share,), ((1 - SPARSITY,) * len(document.layers),))
    return replace(document, curves=BudgetCurves(curve, curve, split))


def question_of(model: LoadedModel, length: int, seed: int | None = None) -> str:
    """A question that has, with the prompt around it, at most so many tokens, or one word."""
    generator = torch.Generator().manual_seed(length if seed is None else seed)
    words = [str(word) for word in torch.randint(100, 999, (length,), generator=generator).tolist()]
    while len(words) > 1 and len(model.prompt.encode_question(" ".join(words))) > length:
        del words[-1 - len(words) // 50 :]
    return " ".join(words)


def measure(
    engines: list[Engine], document: DocumentCache, question: str, budget: float
) -> dict[str, Any]:
    """Check and time a question by the graphs, and with launched attention.

    Raises: WrongResult where logits are further apart than rounding, or other bytes are read.
    """
    logits, rows = [], []
    for engine in engines:
        with asked(engine, document, question, budget) as row:
            logits.append(engine.runner.prefill([row.next_chunk])[0].clone())
            rows.append(row)
    apart = _check_same(question, logits, [row.state.meter.read[0] for row in rows])
    captured, launched = (first_token_ms(engine, document, question, budget) for engine in engines)
    return {
        "question_tokens": len(rows[0].question),
        "budget": budget,
        "loaded": rows[0].state.meter.share(),
        "logits_apart": apart,
        "captured_ms": captured,
        "launched_ms": launched,
    }


def _check_same(question: str, logits: Sequence[Tensor], read: Sequence[float]) -> float:
    """Return the relative distance of logits.

    Raises: WrongResult where they are further apart than rounding, or other bytes were read.
    """
    apart = float((logits[0] - logits[1]).norm() / logits[1].norm())
    if not apart < TOLERANCE or abs(read[0] - read[1]) > READ_TOLERANCE * read[1]:
        raise WrongResult(f"logits of '{question[:40]}' differ by {apart:.4f}, reads are {read}")
    return apart


def measure_crowd(
    engine: Engine, document: DocumentCache, questions: Sequence[str], budget: float
) -> dict[str, Any]:
    """Check questions that are prefilled together against each one alone, and time them.

    Raises: WrongResult where logits are further apart than rounding, or other bytes are read.
    """
    found = [_prefill(engine, document, [question], budget) for question in questions]
    logits, read = _prefill(engine, document, questions, budget)
    apart = [
        _check_same(question, (mine, alone[0][0]), (mine_read, alone[1][0]))
        for question, mine, mine_read, alone in zip(questions, logits, read, found, strict=True)
    ]
    samples = []
    for _ in range(WARM + REPEATS):
        with ExitStack() as stack:
            rows = [
                stack.enter_context(asked(engine, document, question, budget))
                for question in questions
            ]
            torch.cuda.synchronize()
            started = time.perf_counter()
            engine.runner.prefill([row.next_chunk for row in rows]).argmax(1).tolist()
            samples.append((time.perf_counter() - started) * 1e3)
    return {
        "questions": len(questions),
        "budget": budget,
        "logits_apart": max(apart),
        "captured_ms": percentiles(samples[WARM:]),
    }


def _prefill(
    engine: Engine, document: DocumentCache, questions: Sequence[str], budget: float
) -> tuple[Tensor, list[float]]:
    """Prefill questions in one call: logits (questions, vocabulary), and the bytes read of each."""
    with ExitStack() as stack:
        rows = [
            stack.enter_context(asked(engine, document, question, budget)) for question in questions
        ]
        logits = engine.runner.prefill([row.next_chunk for row in rows]).clone()
        return logits, [row.state.meter.read[0] for row in rows]


def first_token_ms(
    engine: Engine, document: DocumentCache, question: str, budget: float
) -> dict[str, float]:
    """Percentiles of the time from a question that is prepared to its first token's number."""
    samples = []
    for _ in range(WARM + REPEATS):
        with asked(engine, document, question, budget) as row:
            torch.cuda.synchronize()
            started = time.perf_counter()
            int(engine.runner.prefill([row.next_chunk])[0].argmax())
            samples.append((time.perf_counter() - started) * 1e3)
    return percentiles(samples[WARM:])


@contextmanager
def asked(
    engine: Engine, document: DocumentCache, question: str, budget: float
) -> Iterator[RunningAnswer]:
    """A question that is ready for its prefill."""
    row = engine.start(document, question, budget=budget, sampling=Sampling(max_tokens=4))
    try:
        yield row
    finally:
        engine.finish(row)


if __name__ == "__main__":
    main()
