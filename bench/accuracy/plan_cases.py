"""Head plans that are compared: of the methods, of chance, and without one head."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from engine.model.head_plan import HeadPlan, plan_all
from engine.model.loader import LoadedModel
from engine.model.spec import ModelSpec
from precompute.heads import duo, razor, zigzag
from precompute.heads.base import HeadMethod, Measure, Scores, chosen_heads, make_plan, top_heads
from precompute.heads.zigzag import ZigzagConfig
from training.intervals import wilson
from training.scoring import Score

RATIOS = (0.05, 0.10, 0.25, 0.50)
SEEDS = 10
ABLATED = 0.25  # the ratio at which compensation is ablated


@dataclass(frozen=True)
class MeasuredMethod:
    """A method with what it found out about the model."""

    method: HeadMethod
    measure: Measure


@dataclass(frozen=True)
class PlanCase:
    """A plan under test.

    Attributes:
        method: what chose its heads.
        ratio: what was asked for; the plan's own may be higher, being rounded up.
        variant: what is not as in the other cases, or nothing.
        seed: of a random plan.
    """

    method: str
    ratio: float
    plan: HeadPlan
    variant: str = ""
    seed: int | None = None

    def row(self, length: int, scores: list[Score]) -> dict[str, Any]:
        """The case with its result, as a JSON object."""
        right = [score.right for score in scores]
        return {
            "method": self.method,
            "ratio": self.ratio,
            "variant": self.variant,
            "seed": self.seed,
            "retrieval_heads": retrieval_heads(self.plan),
            "num_sinks": self.plan.num_sinks,
            "window": self.plan.window,
            "compensation": self.plan.compensation,
            "document_tokens": length,
            "questions": len(right),
            "exact_match": sum(right) / len(right),
            "interval_95": list(wilson(sum(right), len(right))),
            "right": [int(one) for one in right],
        }


def retrieval_heads(plan: HeadPlan) -> list[list[int]]:
    """The retrieval heads, as [layer, head]."""
    return [
        [layer, head]
        for layer, row in enumerate(plan.retrieval)
        for head, is_retrieval in enumerate(row)
        if is_retrieval
    ]


def measure_methods(model: LoadedModel, gates: HeadPlan) -> dict[str, MeasuredMethod]:
    """Duo by gates that were trained, zigzag by the same gates, razor by its own scores.

    Args:
        gates: a plan that duo wrote for this model.
    """
    scored = razor.build()
    trained = Measure(gates.scores, gates.settings)
    layered = zigzag.build(ZigzagConfig(gates=trained))
    return {
        "duo": MeasuredMethod(duo.build(), trained),
        "razor": MeasuredMethod(scored, scored.measure(model, _ignore_progress)),
        "zigzag": MeasuredMethod(layered, layered.measure(model, _ignore_progress)),
    }


def plan_of(
    model: LoadedModel, methods: Mapping[str, MeasuredMethod], name: str, ratio: float
) -> HeadPlan:
    """A method's plan at a ratio of retrieval heads."""
    one = methods[name]
    return make_plan(name, one.method, one.measure, ratio, model=model)


def cases(
    model: LoadedModel, methods: Mapping[str, MeasuredMethod], length: int
) -> Iterator[PlanCase]:
    """All cases at a document length: methods, controls, ablation, and Razor's own window."""
    yield PlanCase("all", 1.0, plan_all(model.spec))
    yield from _with_and_without(PlanCase("streaming", 0.0, streaming_plan(model.spec)))
    for ratio in RATIOS:
        for name in methods:
            plan = plan_of(model, methods, name, ratio)
            case = PlanCase(name, ratio, plan)
            yield from _with_and_without(case) if ratio == ABLATED else (case,)
            if ratio == ABLATED and name == "razor":
                own = replace(plan, num_sinks=4, window=max(4000, length // 5))
                yield replace(case, plan=own, variant="the paper's window")
        for seed in range(SEEDS):
            yield PlanCase("random", ratio, random_plan(model.spec, ratio, seed), seed=seed)


def streaming_plan(spec: ModelSpec) -> HeadPlan:
    """No retrieval head at all."""
    return HeadPlan("streaming", chosen_heads(_scores(spec, None), []))


def random_plan(spec: ModelSpec, ratio: float, seed: int) -> HeadPlan:
    """Heads of random scores; those of a lower ratio are among those of a higher one."""
    heads = top_heads(_scores(spec, Random(seed)), ratio)
    return HeadPlan("random", heads, settings={"seed": seed, "ratio": ratio})


def plans_without_one(spec: ModelSpec) -> Iterator[tuple[int, int, HeadPlan]]:
    """Every layer and KV head, and the plan in which that head alone streams, uncompensated."""
    like = _scores(spec, None)
    places = [(layer, head) for layer, row in enumerate(like) for head in range(len(row))]
    for left_out, place in enumerate(places):
        others = [index for index in range(len(places)) if index != left_out]
        yield *place, HeadPlan("without one", chosen_heads(like, others), compensation=False)


def _with_and_without(case: PlanCase) -> Iterator[PlanCase]:
    """The case as it is, and without the compensation token."""
    yield case
    bare = replace(case.plan, compensation=False)
    yield replace(case, plan=bare, variant="without compensation")


def _scores(spec: ModelSpec, rng: Random | None) -> Scores:
    return tuple(
        tuple(rng.random() if rng else 0.0 for _ in range(layer.num_kv_heads))
        for layer in spec.layers
    )


def _ignore_progress(_done: int, _total: int) -> None:
    """Nobody waits for so short a measurement."""
