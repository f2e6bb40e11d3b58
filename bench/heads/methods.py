"""The methods under test, with what they find out about the reader."""

from dataclasses import dataclass

from engine.model import LoadedModel
from precompute.heads import duo, razor, zigzag
from precompute.heads.base import HeadMethod, Measure, Progress
from precompute.heads.duo import DuoConfig
from precompute.heads.zigzag import ZigzagConfig


@dataclass(frozen=True)
class Measured:
    """A method with what it found out about the model."""

    method: HeadMethod
    measure: Measure


def measure_methods(
    model: LoadedModel, config: DuoConfig, progress: Progress
) -> dict[str, Measured]:
    """Train gates for duo, score for razor, and move duo's gates into whole layers for zigzag."""
    gates = _measured(duo.build(config), model, progress)
    settings = ZigzagConfig(gates=gates.measure.scores, duo=config)
    return {
        "duo": gates,
        "razor": _measured(razor.build(), model, progress),
        "zigzag": _measured(zigzag.build(settings), model, progress),
    }


def _measured(method: HeadMethod, model: LoadedModel, progress: Progress) -> Measured:
    return Measured(method, method.measure(model, progress))
