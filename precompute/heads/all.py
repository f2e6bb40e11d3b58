"""Every head is a retrieval head."""

from dataclasses import dataclass

from engine.model.loader import LoadedModel
from precompute.heads.base import HeadMethod, Heads, Measure, Progress


@dataclass(frozen=True)
class AllConfig:
    """The method has no settings."""


CONFIG = AllConfig


def build(_config: AllConfig | None = None) -> "AllHeads":
    """Build the method."""
    return AllHeads()


class AllHeads(HeadMethod):
    """Keeps the whole document in every head, whatever the ratio."""

    def measure(self, model: LoadedModel, progress: Progress) -> Measure:
        """Nothing is measured: every head scores 1."""
        progress(1, 1)
        return Measure(tuple((1.0,) * layer.num_kv_heads for layer in model.spec.layers))

    def choose(self, measure: Measure, _ratio: float) -> Heads:
        """All heads."""
        return tuple(tuple(True for _ in layer) for layer in measure.scores)
