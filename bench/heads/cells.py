"""Cells of the table: a plan, how it came about, and how many questions it gets right."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bench.heads.controls import random_plan, streaming_plan
from bench.heads.methods import Measured, plan_of
from engine.model.head_plan import HeadPlan, plan_all
from engine.model.loader import LoadedModel
from training.scoring import wilson

RATIOS = (0.05, 0.10, 0.25, 0.50)
SEEDS = 10
ABLATED = 0.25  # the ratio at which compensation is ablated


@dataclass(frozen=True)
class Case:
    """A plan under test.

    Attributes:
        method: what chose its heads.
        ratio: what was asked for; the plan's own may be higher, being rounded up.
        plan: the plan.
        variant: what is not as in the other cases, or nothing.
        seed: of a random plan.
    """

    method: str
    ratio: float
    plan: HeadPlan
    variant: str = ""
    seed: int | None = None

    def heads(self) -> list[list[int]]:
        """The retrieval heads, as [layer, head]."""
        return [
            [layer, head]
            for layer, row in enumerate(self.plan.retrieval)
            for head, is_retrieval in enumerate(row)
            if is_retrieval
        ]

    def row(self, length: int, right: list[bool], seconds: float) -> dict[str, Any]:
        """The case with its result, as a JSON object."""
        low, high = wilson(sum(right), len(right))
        return {
            "method": self.method,
            "ratio": self.ratio,
            "variant": self.variant,
            "seed": self.seed,
            "retrieval_heads": self.heads(),
            "num_sinks": self.plan.num_sinks,
            "window": self.plan.window,
            "compensation": self.plan.compensation,
            "document_tokens": length,
            "questions": len(right),
            "exact_match": sum(right) / len(right),
            "interval_95": [low, high],
            "seconds": seconds,
        }


def cases(model: LoadedModel, methods: Mapping[str, Measured], length: int) -> Iterator[Case]:
    """All cases at a document length: methods, controls, ablation, and Razor's own window."""
    yield Case("all", 1.0, plan_all(model.spec))
    yield from _with_and_without(Case("streaming", 0.0, streaming_plan(model.spec)))
    for ratio in RATIOS:
        for name in methods:
            plan = plan_of(model, methods, name, ratio)
            case = Case(name, ratio, plan)
            yield from _with_and_without(case) if ratio == ABLATED else (case,)
            if ratio == ABLATED and name == "razor":
                own = replace(plan, num_sinks=4, window=max(4000, length // 5))
                yield replace(case, plan=own, variant="the paper's window")
        for seed in range(SEEDS):
            yield Case("random", ratio, random_plan(model.spec, ratio, seed), seed=seed)


def _with_and_without(case: Case) -> Iterator[Case]:
    """The case as it is, and without the compensation token."""
    yield case
    bare = replace(case.plan, compensation=False)
    yield replace(case, plan=bare, variant="without compensation")
