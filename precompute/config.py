"""How a document is read; every field is part of the artifact's fingerprint."""

from dataclasses import asdict, dataclass, field

from engine.document.cache import LookupConfig
from engine.model.attention_scope import EPSILON
from engine.model.fingerprint import digest
from engine.model.loader import LoadedModel

FORMAT = 2  # of the artifact; a new one makes every older artifact stale


@dataclass(frozen=True)
class PrecomputeConfig:
    """Settings of the reading side.

    Attributes:
        chunk_tokens: tokens of prefill at a time.
        num_sinks: leading tokens kept exact in every head.
        num_tail: last tokens kept exact in every head.
        level2_ratio, level1_ratio: centroids per clustered token.
        clustering: name of a file in `precompute/clustering`, or "auto" for the device's default.
        kmeans_iterations: per level.
        scope_epsilon: attention weight below which heads with linear biases (ALiBi) may drop keys.
        num_probes: questions made from the document itself to calibrate budgets on.
        reserve_tokens: room kept free in the model's context for question and answer.
        dtype: of the stored tensors.
        seed: of every random choice.
        lookup: how clusters will be found.
    """

    chunk_tokens: int = 8192
    num_sinks: int = 4
    num_tail: int = 128
    level2_ratio: float = 0.05
    level1_ratio: float = 0.01
    clustering: str = "auto"
    kmeans_iterations: int = 10
    scope_epsilon: float = EPSILON
    num_probes: int = 64
    reserve_tokens: int = 256
    dtype: str = "bfloat16"
    seed: int = 0
    lookup: LookupConfig = field(default_factory=LookupConfig)


def artifact_fingerprint(model: LoadedModel, settings: PrecomputeConfig) -> str:
    """Identify what an artifact depends on beside the document: format, model, plan, settings.

    Of "auto" it is the word that counts, not what it means on a device: whichever back end clusters
    a document, its artifact holds the same keys and values, with budgets calibrated on its own
    clusters. A document that was read on a GPU is not stale for a server without one.
    """
    return digest({
        "format": FORMAT,
        "model": model.fingerprint,
        "plan": model.plan.fingerprint,
        "settings": asdict(settings),
    })  # fmt: skip
