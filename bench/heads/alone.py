"""Brute force: what it costs to let one KV head alone stream."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tokenizers import Tokenizer

from bench.heads.controls import plans_without_one
from bench.heads.exam import Exam
from bench.heads.sitting import sit
from engine.model.head_plan import HeadPlan, plan_all
from engine.model.spec import ModelSpec
from training.model import Reader

COSTLY = 0.05  # points of exact match


def mask_each(
    reader: Reader, exam: Exam, spec: ModelSpec, tokenizer: Tokenizer
) -> Iterator[dict[str, Any]]:
    """A row a KV head: exact match when all heads but this one are retrieval heads, and its cost.

    The head keeps sinks and window and no compensation token.
    """
    full = _exact_match(reader, exam, plan_all(spec), tokenizer)
    for layer, head, plan in plans_without_one(spec):
        found = _exact_match(reader, exam, plan, tokenizer)
        yield {"layer": layer, "head": head, "exact_match": found, "cost": full - found}


def missing_heads(alone: Sequence[Mapping[str, Any]], plan: HeadPlan) -> list[list[int]]:
    """Costly heads, as [layer, head], that are no retrieval heads of the plan."""
    return [
        [row["layer"], row["head"]]
        for row in alone
        if row["cost"] > COSTLY and not plan.retrieval[row["layer"]][row["head"]]
    ]


def _exact_match(reader: Reader, exam: Exam, plan: HeadPlan, tokenizer: Tokenizer) -> float:
    right = exam.right(sit(reader, exam, plan, tokenizer))
    return sum(right) / len(right)
