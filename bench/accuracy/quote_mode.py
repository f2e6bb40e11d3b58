"""Quote mode beside free decoding: are all quotes in the document, and are answers as often right.

    python -m bench.accuracy.quote_mode --data DIR --documents 25 --articles 25 --workers 2

Documents of 16K tokens with needles, and whole SQuAD articles that were never trained on, are
read once; every question is asked freely and in quote mode. Each quote is looked up at its span:
one that does not stand there, and an answer that is more than quotes, joints or the refusal, counts
as wrong. Accuracy is compared question by question. First of all, the time of a token in both modes
is measured in turns over one document of 16K tokens.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch

from bench import RESULTS
from bench.accuracy.asking import Asked, ask_all
from engine.config import AnswerMode, DecodeConfig
from engine.decode.answer import Answer
from engine.decode.quote_decoder import JOINTS
from engine.decode.sampling import Sampling
from engine.document.budget import BALANCED
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.model.fingerprint import weights_fingerprint
from reader import WEIGHTS
from training.data.facts import Question
from training.eval_set import DocumentKey, EvalDocument, EvalSet
from training.eval_tasks import ARTICLE, OWN_LENGTH
from training.evaluator import Evaluator
from training.intervals import paired_normal, paired_wilson
from training.record import circumstances, write
from training.scoring import score
from training.worker_pool import devices_for, run_tasks

TASKS = ("single", "same attribute", "same entity")
MAX_TOKENS, TIMED_TOKENS, TIMED_TURNS = 64, 48, 8
PLANTED, NATURAL = "planted", "natural"
MODES: tuple[AnswerMode, AnswerMode] = ("free", "quote")
_BETWEEN = frozenset({joint.decode().strip() for joint in JOINTS} | {""})


@dataclass(frozen=True)
class QuoteJob:
    """A document to be read and asked.

    Attributes:
        kind: `PLANTED` or `NATURAL`.
        place: of the document among those of the run.
        times: whether tokens are timed over it instead.
    """

    kind: str
    place: int
    document: EvalDocument
    times: bool = False


@dataclass(frozen=True)
class QuoteRow:
    """One question, asked freely and in quote mode.

    Attributes:
        right, f1: of the free and of the quoting answer.
        wrong_spans: quotes that do not stand at their span, and text that is no quote.
        invented: claims of the free answer that stand nowhere in the document.
    """

    kind: str
    right: tuple[bool, bool]
    f1: tuple[float, float]
    wrong_spans: int
    invented: int


def main(given: Sequence[str] | None = None) -> None:
    """Measure, print and write the result."""
    options = _parse(given)
    torch.set_num_threads(options.threads)
    eval_set = EvalSet(options.model / "tokenizer.json", options.data, options.seed)
    planted = eval_set.mixed(
        TASKS, num_tokens=options.tokens, count=options.documents, questions=options.questions
    )
    keys = [DocumentKey(OWN_LENGTH, ARTICLE, number) for number in range(options.articles)]
    asked = [QuoteJob(PLANTED, place, one) for place, one in enumerate(planted)]
    read = [QuoteJob(NATURAL, place, eval_set.document(key)) for place, key in enumerate(keys)]
    jobs = [job for pair in zip_longest(asked, read) for job in pair if job is not None]
    rows: list[QuoteRow] = []
    start = partial(_start, options.model)
    devices = devices_for(options.device, options.workers)
    times: dict[str, Any] = {}
    if planted:
        job = QuoteJob(PLANTED, 0, planted[0], times=True)
        ((_, (_, times)),) = run_tasks([job], start, devices[:1])
    for done, (_, (more, _)) in enumerate(run_tasks(jobs, start, devices), 1):
        rows += more
        print(f"{done} of {len(jobs)} documents", flush=True)
        result = {
            "benchmark": "quote_mode",
            **circumstances(options.device, weights_fingerprint(options.model)),
            "document_tokens": options.tokens,
            "threads": options.threads,
            "budget": BALANCED,
            **report(rows),
            "token_time": times,
        }
        write("quote_mode", result, options.out)  # hours of work are not lost if it is cut short


def report(rows: Sequence[QuoteRow]) -> dict[str, Any]:
    """The result of all questions, and of each kind."""
    kinds = {kind: [row for row in rows if row.kind == kind] for kind in (PLANTED, NATURAL)}
    return {
        "questions": len(rows),
        "answers_not_in_the_document": sum(row.wrong_spans > 0 for row in rows),
        **{kind: summary(some) for kind, some in kinds.items() if some},
    }


def summary(rows: Sequence[QuoteRow]) -> dict[str, Any]:
    """Accuracy of both modes with the paired difference, and how often evidence hits."""
    free, quote = ([int(row.right[at]) for row in rows] for at in (0, 1))
    free_f1, quote_f1 = ([row.f1[at] for row in rows] for at in (0, 1))
    return {
        "questions": len(rows),
        "exact_match_free": fmean(free),
        "exact_match_quote": fmean(quote),
        "difference": fmean(quote) - fmean(free),
        "difference_interval_95": paired_wilson(quote, free),
        "f1_free": fmean(free_f1),
        "f1_quote": fmean(quote_f1),
        "f1_difference_interval_95": paired_normal(quote_f1, free_f1) if len(rows) > 1 else None,
        "free_answers_with_claims_not_in_the_document": sum(row.invented > 0 for row in rows),
    }


def _start(
    weights: Path, device: str
) -> Callable[[QuoteJob], tuple[list[QuoteRow], dict[str, Any]]]:
    evaluator = Evaluator(weights, device=device, max_tokens=MAX_TOKENS)
    engine = Engine(evaluator.model, DecodeConfig())

    def work(job: QuoteJob) -> tuple[list[QuoteRow], dict[str, Any]]:
        document = evaluator.read(job.document.text)
        if job.times:
            return [], token_times(engine, document, job.document.questions)
        return ask_both(engine, document, job.document.questions, job.kind), {}

    return work


def ask_both(
    engine: Engine, document: DocumentCache, questions: Sequence[Question], kind: str
) -> list[QuoteRow]:
    """Ask questions greedily in both modes at the default budget."""
    free, quoting = (
        ask_all(
            engine,
            [
                Asked(document, one.text, BALANCED, Sampling(max_tokens=MAX_TOKENS, mode=mode))
                for one in questions
            ],
        )
        for mode in MODES
    )
    return [
        row_of(document, question, kind, *pair)
        for question, *pair in zip(questions, free, quoting, strict=True)
    ]


def row_of(
    document: DocumentCache, question: Question, kind: str, free: Answer, quoting: Answer
) -> QuoteRow:
    """Score a question's two answers."""
    scores = [score(question, answer.text) for answer in (free, quoting)]
    return QuoteRow(
        kind=kind,
        right=(scores[0].right, scores[1].right),
        f1=(scores[0].f1, scores[1].f1),
        wrong_spans=count_wrong_spans(document.text, quoting),
        invented=sum(not claim.is_grounded for claim in free.claims or ()),
    )


def count_wrong_spans(text: str, answer: Answer) -> int:
    """Quotes that do not stand at their span, and pieces of the answer that are none."""
    quotes, wrong, at = answer.quotes or (), 0, 0
    for quote in quotes:
        shown = answer.text[quote.answer_start : quote.answer_end]
        there = text[quote.start_char : quote.end_char]
        wrong += there != quote.text or " ".join(there.split()) != shown
        wrong += answer.text[at : quote.answer_start].strip() not in _BETWEEN
        at = quote.answer_end
    is_refusal = answer.refused and not quotes
    is_cut = answer.finish_reason != "stop"
    if not (is_refusal or is_cut):
        wrong += bool(answer.text[at:].strip()) or not quotes
    return wrong


def token_times(
    engine: Engine, document: DocumentCache, questions: Sequence[Question]
) -> dict[str, Any]:
    """Milliseconds of a decoded token in both modes, in turns."""
    found: dict[str, list[float]] = {"free": [], "quote": []}
    for turn in range(TIMED_TURNS):
        question = questions[turn % len(questions)].text
        for mode in MODES if turn % 2 else reversed(MODES):
            sampling = Sampling(max_tokens=TIMED_TOKENS, ignore_eos=True, mode=mode)
            running = engine.start(document, question, budget=BALANCED, sampling=sampling)
            while len(running.answer) < 1:
                engine.step([running])
            begun_s = time.perf_counter()
            while not running.is_finished:
                engine.step([running])
            spent_s = time.perf_counter() - begun_s
            engine.finish(running)
            if turn >= 2:  # the first turns prepare the text and warm up
                found[mode].append(1e3 * spent_s / (len(running.answer) - 1))
    return {
        "tokens": TIMED_TOKENS,
        "free_ms": median(found["free"]),
        "quote_ms": median(found["quote"]),
        "ratio": median(found["quote"]) / median(found["free"]),
    }


def _parse(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, default=WEIGHTS)
    parser.add_argument("--data", type=Path, required=True, help="folder of books/ and squad/")
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--documents", type=int, default=25, help="with needles")
    parser.add_argument("--questions", type=int, default=20, help="a document with needles")
    parser.add_argument("--articles", type=int, default=25, help="of SQuAD")
    parser.add_argument("--seed", type=int, default=7, help="of the documents")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    return parser.parse_args(given)


if __name__ == "__main__":
    main()
