"""DuoAttention: a gate per KV head, optimised so that answers stay as they are.

Source: DuoAttention, https://arxiv.org/abs/2410.10819, sections 2.2 and 3.1.
"""

from torch import Tensor

from engine.model.loader import LoadedModel
from precompute.heads.base import HeadMethod, Measure, Progress, Scores
from precompute.heads.duo.config import DuoConfig, Recipe
from precompute.heads.duo.train import train_gates

__all__ = ["CONFIG", "Duo", "DuoConfig", "Recipe", "build"]
CONFIG = DuoConfig


def build(config: DuoConfig | None = None) -> "Duo":
    """Build the method."""
    return Duo(config or DuoConfig())


class Duo(HeadMethod):
    """Gates by optimisation; the highest are retrieval heads."""

    def __init__(self, config: DuoConfig) -> None:
        self._config = config

    def measure(self, model: LoadedModel, progress: Progress) -> Measure:
        """Train the gates; see `train_gates` for errors and for how it resumes."""
        gates = train_gates(model, self._config, progress)
        return Measure(as_scores(gates), self._config.described())


def as_scores(gates: Tensor) -> Scores:
    """Gates (layers, kv_heads) as plain numbers."""
    return tuple(tuple(layer) for layer in gates.tolist())
