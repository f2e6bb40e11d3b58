"""What answers lose where documents are read with products in bfloat16 instead of float32.

    python -m bench.accuracy.prefill_dtype --data DIR

Documents of 16K tokens with needles are read twice on the CPU, by matrix multiplication in the
model's own dtype and in bfloat16, and the same questions are asked about both, at the default
budget and at `exact`. Questions are paired, so that the difference has an interval of its own.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from bench import RESULTS
from bench.accuracy.asking import Asked, ask_all
from engine.decode.sampling import Sampling
from engine.document.budget import BALANCED, EXACT
from engine.engine import Engine
from engine.model.fingerprint import weights_fingerprint
from precompute.config import PrecomputeConfig
from precompute.prefill_dtype import has_bfloat16_matmul
from reader import WEIGHTS
from training.eval_set import EvalDocument, EvalSet
from training.evaluator import Evaluator
from training.intervals import paired_wilson, wilson
from training.record import circumstances, write
from training.scoring import score

TASKS = ("single", "same attribute", "same entity")
BUDGETS = {"balanced": BALANCED, "exact": EXACT}
MAX_TOKENS = 64  # of an answer


@dataclass(frozen=True)
class Row:
    """A question's answers: whether they were right, and whether they were the same."""

    model: bool
    bfloat16: bool
    same: bool


def main(given: Sequence[str] | None = None) -> None:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder that holds books/")
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--documents", type=int, default=10)
    parser.add_argument("--questions", type=int, default=20, help="a document")
    parser.add_argument("--seed", type=int, default=31, help="of the documents")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    options = parser.parse_args(given)
    documents = EvalSet(WEIGHTS / "tokenizer.json", options.data, options.seed).mixed(
        TASKS, num_tokens=options.tokens, count=options.documents, questions=options.questions
    )
    readers = {
        dtype: Evaluator(WEIGHTS, device="cpu", settings=PrecomputeConfig(prefill_dtype=dtype))
        for dtype in ("model", "bfloat16")
    }
    engine = Engine(readers["model"].model)  # questions are answered alike
    rows: dict[str, list[Row]] = {name: [] for name in BUDGETS}
    for done, document in enumerate(documents, 1):
        for name, found in ask(engine, readers, document).items():
            rows[name] += found
        result = {
            "benchmark": "products of a document's prefill in bfloat16",
            **circumstances("cpu", weights_fingerprint(WEIGHTS)),
            "document_tokens": options.tokens,
            "documents": done,
            "has_bfloat16_products": has_bfloat16_matmul(),
            **{name: summary(found) for name, found in rows.items()},
        }
        write("prefill_dtype", result, options.out)
        print(f"{done} of {len(documents)}", {name: result[name] for name in BUDGETS}, flush=True)


def ask(
    engine: Engine, readers: dict[str, Evaluator], document: EvalDocument
) -> dict[str, list[Row]]:
    """Read a document in both ways, and ask all of its questions at each budget."""
    texts: dict[tuple[str, str], list[str]] = {}
    for dtype, reader in readers.items():
        cache, sampling = reader.read(document.text), Sampling(max_tokens=MAX_TOKENS)
        for name, budget in BUDGETS.items():
            asked = [Asked(cache, one.text, budget, sampling) for one in document.questions]
            texts[dtype, name] = [answer.text for answer in ask_all(engine, asked)]
    return {
        name: [
            Row(
                model=score(question, plain, 1.0).right,
                bfloat16=score(question, other, 1.0).right,
                same=plain == other,
            )
            for question, plain, other in zip(
                document.questions, texts["model", name], texts["bfloat16", name], strict=True
            )
        ]
        for name in BUDGETS
    }


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Exact match in both ways, and the paired difference."""
    model, bfloat16 = ([getattr(row, name) for row in rows] for name in ("model", "bfloat16"))
    return {
        "n": len(rows),
        "exact_match_model": fmean(model),
        "exact_match_bfloat16": fmean(bfloat16),
        "interval_95_bfloat16": wilson(sum(bfloat16), len(rows)),
        "difference": fmean(bfloat16) - fmean(model),
        "paired_interval_95": paired_wilson(bfloat16, model),
        "same_answers": fmean(row.same for row in rows),
    }


if __name__ == "__main__":
    main()
