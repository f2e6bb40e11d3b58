"""What questions load, beside what was asked for: prefill and decoding apart."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from engine.decode.answer import Answer
from engine.decode.sampling import Sampling
from engine.document.cache import DocumentCache
from engine.engine import Engine

BUDGETS = (0.08, 0.11, 0.15, 0.2, 0.3, 0.4, 0.5)
STEPS = 12  # tokens that are decoded


@dataclass(frozen=True)
class LoadedRow:
    """What one question loaded.

    Attributes:
        budget: share of the budgeted bytes that was asked for.
        question_tokens: with those of the chat template.
        prefill, decode: shares that were read in the question's prefill and on average in a
            decoded token; `decode` is None where the model ended its answer at once.
        seconds: until the first token.
    """

    budget: float
    question_tokens: int
    prefill: float
    decode: float | None
    seconds: float


def ask_at(
    engine: Engine, document: DocumentCache, question: str, budget: float, steps: int = STEPS
) -> LoadedRow:
    """Answer a question in `steps` tokens, and tell what was loaded."""
    sampling = Sampling(max_tokens=steps)
    *_, said = engine.answer(document, question, budget=budget, sampling=sampling)
    if not isinstance(said, Answer):
        raise RuntimeError("the engine ended without an answer")
    has_decoded = said.usage.completion_tokens > 1
    return LoadedRow(
        budget=budget,
        question_tokens=said.usage.question_tokens,
        prefill=said.budget.loaded_prefill,
        decode=said.budget.loaded_decode if has_decoded else None,
        seconds=said.timings_ms["first_token"] / 1e3,
    )


def describe_loaded(rows: Sequence[LoadedRow], floor: float) -> dict[str, Any]:
    """The means over the questions of each budget, and how far the worst mean is from its budget.

    Args:
        floor: the least budget that the document can keep; those below it do not count.
    """
    points = [
        _mean([row for row in rows if row.budget == budget])
        for budget in sorted({row.budget for row in rows if row.budget >= floor})
    ]
    return {
        "floor": floor,
        "budgets_below_the_floor": sorted({row.budget for row in rows if row.budget < floor}),
        "points": points,
        "largest_deviation_prefill": max(_deviations(points, "prefill"), default=0.0),
        "largest_deviation_decode": max(_deviations(points, "decode"), default=0.0),
        "largest_deviation": max(
            (*_deviations(points, "prefill"), *_deviations(points, "decode")), default=0.0
        ),
        "rows": [asdict(row) for row in rows],
    }


def _mean(rows: Sequence[LoadedRow]) -> dict[str, Any]:
    decoded = [row.decode for row in rows if row.decode is not None]
    return {
        "budget": rows[0].budget,
        "questions": len(rows),
        "prefill": fmean(row.prefill for row in rows),
        "decode": fmean(decoded) if decoded else None,
    }


def _deviations(points: Sequence[dict[str, Any]], phase: str) -> Iterator[float]:
    for point in points:
        if point[phase] is not None:
            yield abs(point[phase] / point["budget"] - 1)
