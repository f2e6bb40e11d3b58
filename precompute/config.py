"""How a document is precomputed; every field is part of the artifact's fingerprint."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt

from engine.config import SCOPE_EPSILON, LookupConfig


@dataclass(frozen=True)
class PrecomputeConfig:
    """Settings of precomputation.

    Attributes:
        chunk_tokens: tokens of prefill at a time.
        num_sinks: leading tokens kept exact in every head.
        num_tail: last tokens kept exact in every head.
        level2_ratio, level1_ratio: fine and coarse centroids per clustered token.
        clustering: name of a file in `precompute/clustering`, or "auto" for the device's default.
        kmeans_iterations: per level.
        scope_epsilon: attention weight below which heads with linear biases (ALiBi) may drop keys.
        num_probes: questions made from the document itself to calibrate budgets on.
        reserve_tokens: room kept free in the model's context for question and answer.
        dtype: of the stored tensors.
        prefill_dtype: in which matrices are multiplied while a document is read: "model" for the
            model's own dtype; "auto" for bfloat16 where that is quicker on a CPU, see
            `precompute.prefill_dtype`.
        seed: of every random choice.
        lookup: how clusters will be found.
    """

    chunk_tokens: Annotated[int, Gt(0)] = 8192
    num_sinks: Annotated[int, Ge(0)] = 4
    num_tail: Annotated[int, Ge(0)] = 128
    level2_ratio: Annotated[float, Gt(0), Le(1)] = 0.05
    level1_ratio: Annotated[float, Gt(0), Le(1)] = 0.01
    clustering: str = "auto"
    kmeans_iterations: Annotated[int, Gt(0)] = 10
    scope_epsilon: Annotated[float, Gt(0), Lt(1)] = SCOPE_EPSILON
    num_probes: Annotated[int, Ge(8)] = 64
    reserve_tokens: Annotated[int, Ge(0)] = 256
    dtype: Literal["float32", "bfloat16", "float16"] = "bfloat16"
    prefill_dtype: Literal["auto", "model", "bfloat16"] = "auto"
    seed: int = 0
    lookup: LookupConfig = field(default_factory=LookupConfig)
