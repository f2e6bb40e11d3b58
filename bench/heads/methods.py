"""The methods under test, with what they find out about the reader."""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.model.head_plan import HeadPlan
from engine.model.loader import LoadedModel
from precompute.heads import duo, razor, zigzag
from precompute.heads.base import HeadMethod, Measure, make_plan
from precompute.heads.zigzag import ZigzagConfig


@dataclass(frozen=True)
class Measured:
    """A method with what it found out about the model."""

    method: HeadMethod
    measure: Measure


def measure_methods(model: LoadedModel, gates: HeadPlan) -> dict[str, Measured]:
    """Duo by gates that were trained, zigzag by the same gates, razor by its own scores.

    Args:
        gates: a plan that duo wrote for this model.
    """
    scored = razor.build()
    trained = Measure(gates.scores, gates.settings)
    layered = zigzag.build(ZigzagConfig(gates=trained))
    return {
        "duo": Measured(duo.build(), trained),
        "razor": Measured(scored, scored.measure(model, _unheard)),
        "zigzag": Measured(layered, layered.measure(model, _unheard)),
    }


def plan_of(
    model: LoadedModel, methods: Mapping[str, Measured], name: str, ratio: float
) -> HeadPlan:
    """A method's plan at a ratio of retrieval heads."""
    one = methods[name]
    return make_plan(name, one.method, one.measure, ratio, model=model)


def _unheard(_done: int, _total: int) -> None:
    """Nobody waits for so short a measurement."""
