"""ZigZagAttention: layers of retrieval heads alone, and layers of streaming heads alone.

The paper moves DuoAttention's heads into such layers at the least cost, and tries every combination
of layers. The cost (its eq. 5) is a sum over layers of one amount for each kind of layer, so the
best combination is the layers that gain most from being retrieval layers: no enumeration is needed.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from engine.model.loader import LoadedModel
from precompute.heads.base import (
    HeadMethod,
    Heads,
    Measure,
    Progress,
    Scores,
    num_chosen,
    ranked,
    top_heads,
)
from precompute.heads.duo import as_scores
from precompute.heads.duo.config import DuoConfig
from precompute.heads.duo.train import train_gates

LAYER_GATES = "layer_gates"


@dataclass(frozen=True)
class ZigzagConfig:
    """Settings of the method.

    Attributes:
        gates: what DuoAttention measured, where it is known already; else it is trained.
        omega: in [0, 1], how much a streaming head's gate speaks for a retrieval layer.
        tuning_steps: of layer-wise fine-tuning (section 2.3); 0 for none.
        tuning_ratio: share of retrieval layers that fine-tuning begins with.
        duo: how gates are trained, those of heads that are not known and those of layers.
    """

    gates: Measure | None = None
    omega: float = 0.1
    tuning_steps: int = 0
    tuning_ratio: float = 0.5
    duo: DuoConfig = field(default_factory=DuoConfig)


CONFIG = ZigzagConfig


def build(config: ZigzagConfig | None = None) -> "Zigzag":
    """Build the method."""
    return Zigzag(config or ZigzagConfig())


class Zigzag(HeadMethod):
    """Whole layers, chosen by their heads' gates, or by gates of their own if these were tuned."""

    def __init__(self, config: ZigzagConfig) -> None:
        self._config = config

    def measure(self, model: LoadedModel, progress: Progress) -> Measure:
        """Train gates unless they were given, and tune gates of layers if that was asked for."""
        config = self._config
        gates = config.gates
        if gates is None:
            trained = as_scores(train_gates(model, config.duo, progress))
            gates = Measure(trained, config.duo.described())
        settings: dict[str, Any] = {"omega": config.omega, "gates": dict(gates.settings)}
        others = {}
        if config.tuning_steps:
            others[LAYER_GATES] = self._tune(model, gates.scores, progress)
            tuned = {"steps": config.tuning_steps, "ratio": config.tuning_ratio}
            settings["tuning"] = config.duo.described() | tuned
        return Measure(gates.scores, settings, others)

    def choose(self, measure: Measure, ratio: float) -> Heads:
        """A share of the layers, rounded up."""
        if LAYER_GATES in measure.others:
            gains = [layer[0] for layer in measure.others[LAYER_GATES]]
        else:
            gains = layer_gains(measure.scores, ratio, self._config.omega, measure.ties)
        ties = None if measure.ties is None else [sum(layer) for layer in measure.ties]
        chosen = set(ranked(gains, ties)[: num_chosen(len(gains), ratio)])
        return tuple((at in chosen,) * len(layer) for at, layer in enumerate(measure.scores))

    def _tune(self, model: LoadedModel, gates: Scores, progress: Progress) -> Scores:
        """Gates of layers, trained from the best combination on; saved beside the heads' gates."""
        config = self._config
        plain = Zigzag(replace(config, tuning_steps=0))
        begin = plain.choose(Measure(gates), config.tuning_ratio)
        duo = replace(config.duo, steps=config.tuning_steps)
        duo = replace(duo, state=f"{duo.state}.layers") if duo.state else duo
        return as_scores(train_gates(model, duo, progress, _layer_gates(begin)))


def layer_gains(
    gates: Scores, ratio: float, omega: float, ties: Scores | None = None
) -> list[float]:
    """How much less a layer costs as a retrieval layer than as a streaming layer.

    DuoAttention's heads at the same ratio are the starting point. A streaming layer costs its
    retrieval heads' gates; a retrieval layer earns `omega` times its streaming heads' gates.

    Args:
        ties: part heads of equal gates, see `Measure`.
    Source: ZigZagAttention, equation 5.
    """
    gains = []
    for layer, heads in zip(gates, top_heads(gates, ratio, ties), strict=True):
        kept = sum(gate for gate, is_kept in zip(layer, heads, strict=True) if is_kept)
        gains.append(kept + omega * (sum(layer) - kept))
    return gains


def _layer_gates(heads: Heads) -> Tensor:
    return torch.tensor([[float(layer[0])] for layer in heads])
