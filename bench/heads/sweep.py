"""Exact match of the reader under head plans: method x ratio x document length, with controls.

    python -m bench.heads_plan duo --haystack DIR --out duo.json
    python -m bench.heads.sweep --data DIR --duo duo.json --device cuda --out DIR

Documents with planted facts are read under each plan's mask from the first token on, as in serving,
and their questions answered greedily. No figure is given unless answers under a mixed plan are the
engine's own. Writes `heads.json` as it goes, and a few of the plans; `bench.heads.plot` draws it.
"""

import argparse
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from bench.facts import draw_documents
from bench.heads.alone import mask_each, missing_heads
from bench.heads.cells import RATIOS, cases
from bench.heads.check import differing_answers, with_plan
from bench.heads.controls import random_plan
from bench.heads.exam import Exam, load_tokenizer, make_exam
from bench.heads.methods import Measured, measure_methods, plan_of
from bench.heads.sitting import sit
from bench.heads.summary import percent, summarise
from bench.record import RESULTS, circumstances, write
from engine.config import ModelConfig
from engine.model.head_plan import ALL, check_plan, read_plan, write_plan
from engine.model.loader import LoadedModel, load_model
from training.model import Reader
from training.weights import load_weights

CHECK_TOKENS, CHECK_QUESTIONS = 2048, 8
WRITTEN = (  # plans
    ("duo", 0.10),
    ("duo", 0.25),
    ("razor", 0.25),
    ("zigzag", 0.25),
    ("zigzag", 0.50),
)


@dataclass(frozen=True)
class Examinee:
    """The reader as the engine serves it and as it sits exams."""

    model: LoadedModel
    reader: Reader
    tokenizer: Tokenizer


def main() -> None:
    """Measure, print and write the result."""
    options = _parse()
    check(options)
    torch.set_float32_matmul_precision("high")  # scores of bf16 queries and keys stay exact
    examinee = load(options.model, options.device, "auto")
    gates = read_plan(options.duo)
    check_plan(gates, examinee.model.spec, examinee.model.weights)
    methods = measure_methods(examinee.model, gates)
    for name, ratio in WRITTEN:
        plan = plan_of(examinee.model, methods, name, ratio)
        write_plan(plan, options.out / f"{name}-{percent(ratio)}.json")
    result: dict[str, Any] = {
        "benchmark": "heads",
        **circumstances(options.device),
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
    for done in measure(examinee, methods, options):
        result |= done
        write("heads", result, options.out)


def measure(
    examinee: Examinee, methods: Mapping[str, Measured], options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Parts of the result as they grow: every head alone, then the table, length by length."""
    rows: list[dict[str, Any]] = []
    for length in options.lengths:
        exam = draw_exam(examinee, options, length, options.documents)
        if length == options.alone_at:
            yield {"alone": alone(examinee, methods, exam, length)}
        for case in cases(examinee.model, methods, length):
            started = time.perf_counter()
            right = exam.right(sit(examinee.reader, exam, case.plan, examinee.tokenizer))
            rows.append(case.row(length, right, time.perf_counter() - started))
            print(_line(rows[-1]), flush=True)
            yield {"rows": rows}
        yield {"summary": summarise(rows)}


def alone(
    examinee: Examinee, methods: Mapping[str, Measured], exam: Exam, length: int
) -> dict[str, Any]:
    """What each head alone costs, and which costly heads the duo plans leave out."""
    rows = list(mask_each(examinee.reader, exam, examinee.model.spec, examinee.tokenizer))
    left_out = {
        percent(ratio): missing_heads(rows, plan_of(examinee.model, methods, "duo", ratio))
        for ratio in RATIOS
    }
    return {
        "document_tokens": length,
        "questions": len(exam.expected),
        "heads": rows,
        "left_out_by_duo": left_out,
        "num_left_out_by_duo": {ratio: len(heads) for ratio, heads in left_out.items()},
    }


def check(options: argparse.Namespace) -> None:
    """Answers under a mixed plan must be the engine's on a CPU, and on the device nearly so.

    Raises: SystemExit with the first difference.
    """
    examinee = load(options.model, "cpu", "float32")
    [document] = draw_documents(
        options.data,
        str(options.model),
        num_tokens=CHECK_TOKENS,
        count=1,
        questions=CHECK_QUESTIONS,
    )
    plan = random_plan(examinee.model.spec, 0.5, seed=0)
    reader, tokenizer = examinee.reader, examinee.tokenizer
    if differing := differing_answers(with_plan(examinee.model, plan), reader, tokenizer, document):
        raise SystemExit(f"The engine answers otherwise, no figure is given: {differing[0]}")
    answers = [
        sit(
            reader.to(device),
            make_exam([document], tokenizer, torch.device(device)),
            plan,
            tokenizer,
        )
        for device in ("cpu", options.device)
    ]
    changed = sum(here != there for here, there in zip(*answers, strict=True))
    if changed > 1:  # scores that are nearly equal may fall otherwise
        raise SystemExit(f"{changed} of {CHECK_QUESTIONS} answers change with the device.")
    print(f"{CHECK_QUESTIONS} answers under a mixed plan are the engine's", flush=True)


def load(folder: Path, device: str, dtype: str) -> Examinee:
    """The same weights for the engine and for exams."""
    model = load_model(ModelConfig(str(folder), device=device, dtype=dtype, heads=ALL))
    reader = load_weights(folder).to(model.device, model.dtype)
    return Examinee(model, reader, load_tokenizer(folder))


def draw_exam(examinee: Examinee, options: argparse.Namespace, num_tokens: int, count: int) -> Exam:
    """Documents of a length with facts planted in held-out books."""
    drawn = draw_documents(
        options.data,
        str(options.model),
        num_tokens=num_tokens,
        count=count,
        questions=options.questions,
        seed=options.seed,
    )
    return make_exam(drawn, examinee.tokenizer, examinee.model.device)


def _line(row: Mapping[str, Any]) -> str:
    return (
        f"{row['document_tokens']:6} {row['method']:10} {row['ratio']:5.2f} "
        f"{len(row['retrieval_heads']):3} heads {row['variant']:22} {row['exact_match']:.3f} "
        f"{row['seconds']:6.2f} s"
    )


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, default=Path("reader/weights"))
    parser.add_argument("--data", type=Path, required=True, help="folder that holds books/")
    parser.add_argument("--duo", type=Path, required=True, help="a plan that duo wrote")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--lengths", type=int, nargs="+", default=[16_384, 4096, 32_768])
    parser.add_argument("--alone-at", type=int, default=16_384, help="length for single heads")
    parser.add_argument("--documents", type=int, default=15, help="of each length")
    parser.add_argument("--questions", type=int, default=20, help="of each document")
    parser.add_argument("--seed", type=int, default=7, help="of the documents")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
