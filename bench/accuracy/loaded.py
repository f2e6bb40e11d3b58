"""What questions load, beside what was asked for: prefill and decoding apart."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

from engine.decode.answer import Answer
from engine.decode.sampling import Sampling
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.model.loader import LoadedModel

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


def without_end(model: LoadedModel) -> LoadedModel:
    """The model without tokens that end an answer: every answer has as many tokens as it may."""
    return replace(model, generation=replace(model.generation, eos_ids=()))


def describe_loaded(rows: Sequence[LoadedRow], document: DocumentCache) -> dict[str, Any]:
    """The means over the questions of each budget, and how far the worst mean is from its budget.

    Budgets below the document's floor do not count, nor those that pay for all that its heads keep:
    under a head plan that is less than full attention's bytes.
    """
    floor, ceiling = document.curves.floor, share_of_all(document)
    asked = sorted({row.budget for row in rows})
    points = [
        _mean([row for row in rows if row.budget == budget])
        for budget in asked
        if floor <= budget <= ceiling
    ]
    return {
        "floor": floor,
        "ceiling": ceiling,
        "budgets_below_the_floor": [budget for budget in asked if budget < floor],
        "budgets_that_pay_for_all": [budget for budget in asked if budget > ceiling],
        "points": points,
        "largest_deviation_prefill": max(_deviations(points, "prefill"), default=0.0),
        "largest_deviation_decode": max(_deviations(points, "decode"), default=0.0),
        "largest_deviation": max(
            (*_deviations(points, "prefill"), *_deviations(points, "decode")), default=0.0
        ),
        "rows": [asdict(row) for row in rows],
    }


def share_of_all(document: DocumentCache) -> float:
    """The share of full attention's bytes in the layers under the budget that heads keep at all."""
    layers = document.budgeted_layers
    kept = sum(layer.constant_vectors + 2 * layer.num_clustered for layer in layers)
    return kept / sum(layer.full_vectors for layer in layers)


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
