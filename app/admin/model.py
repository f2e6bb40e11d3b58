"""Collect what the dashboard shows of the model: its memory, and which heads keep the document."""

import math
from dataclasses import dataclass

from app.services.services import Services
from engine.residents.entry import Tier
from reader import WEIGHTS

BUNDLED = "Lectern's bundled reader"


@dataclass(frozen=True)
class Head:
    """A KV head of a layer.

    Attributes:
        score: root of what the head method measured, from 0 to 1 among all heads; None if it
            measured nothing.
    """

    is_retrieval: bool
    score: float | None


@dataclass(frozen=True)
class ModelView:
    """The loaded model.

    Attributes:
        weight_bytes: of all its weights, as they are loaded.
        device_bytes, host_bytes, staging_bytes: that documents may have in each tier, and that the
            way between them takes.
        device_tokens: about how many tokens of documents that is on the device; None if not known.
        layers: the KV heads of each layer, retrieval heads first.
    """

    name: str
    device: str
    dtype: str
    context_tokens: int
    weight_bytes: int
    device_bytes: int
    host_bytes: int
    staging_bytes: int
    device_tokens: int | None
    method: str
    ratio: float
    num_sinks: int
    window: int
    layers: tuple[tuple[Head, ...], ...]

    @property
    def has_scores(self) -> bool:
        """Whether the head method measured anything."""
        return any(head.score is not None for layer in self.layers for head in layer)


def describe_model(services: Services) -> ModelView:
    """Return what is known about the model of this process."""
    model, plan = services.engine.model, services.engine.model.plan
    residents, sizes = services.resident_documents, services.memory_warnings.sizes
    device_bytes = residents.limit_bytes(Tier.DEVICE)
    weights = {tensor.data_ptr(): tensor.nbytes for tensor in model.model.parameters()}
    return ModelView(
        name=BUNDLED if model.folder == WEIGHTS else model.name,
        device=str(model.device),
        dtype=str(model.dtype).removeprefix("torch."),
        context_tokens=model.spec.context_length,
        weight_bytes=sum(weights.values()),
        device_bytes=device_bytes,
        host_bytes=residents.limit_bytes(Tier.HOST),
        staging_bytes=services.config.staging_bytes if model.device.type == "cuda" else 0,
        device_tokens=None if sizes is None else sizes.tokens_in(device_bytes),
        method=plan.method,
        ratio=plan.ratio,
        num_sinks=plan.num_sinks,
        window=plan.window,
        layers=_heads(plan.retrieval, plan.scores),
    )


def _heads(
    retrieval: tuple[tuple[bool, ...], ...], scores: tuple[tuple[float, ...], ...]
) -> tuple[tuple[Head, ...], ...]:
    values = [score for layer in scores for score in layer]
    low, high = min(values, default=0.0), max(values, default=1.0)
    spread = (high - low) or 1.0

    def score(layer: int, head: int) -> float | None:
        return math.sqrt((scores[layer][head] - low) / spread) if scores else None

    return tuple(
        tuple(Head(kept, score(layer, head)) for head, kept in enumerate(heads))
        for layer, heads in enumerate(retrieval)
    )
