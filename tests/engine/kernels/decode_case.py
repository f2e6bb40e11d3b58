"""One layer's decode step of an awkward shape, for the tests of its kernels."""

import math
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from engine.kernels.decode.inputs import (
    DecodeInputs,
    QuestionKeys,
    ResidentLayer,
    Scoring,
    StreamingKeys,
    UpperLevel,
    sizes_of,
    upper_level,
)
from engine.kernels.decode.tuning import Tuning
from engine.kernels.decode.workspace import Workspace, allocate
from tests.engine.kernels.harness import DEVICE, surrounded
from tests.engine.naive import normal

# Small tiles, so that small inputs are cut into many splits.
SMALL = Tuning(
    dense_split_keys=16,
    min_split_clusters=32,
    score_block=16,
    score_stages=2,
    child_span=32,
    child_block=16,
    select_scores=64,
    select_warps=4,
    segment_size=8,
    attend_block=32,
    attend_stages=2,
    attend_programs=7,
)
DROPPED = 50  # tokens that a compensation token stands for


@dataclass(frozen=True)
class Case:
    """Sizes of a step, and what its questions select.

    Attributes:
        lengths: keys of each question; its capacity is one more than the longest.
        level1, level2: thresholds in nats.
        window: the layer's sliding window; it has then neither clusters nor streaming heads.
    """

    retrieval: int = 2
    streaming: int = 1
    group: int = 4
    head_dim: int = 64
    anchors: int = 9
    tokens: int = 211
    clusters: int = 37
    upper: int = 0
    streaming_keys: int = 21
    lengths: tuple[int, ...] = (7,)
    level1: float = -5.9
    level2: float = -5.7
    softcap: float | None = None
    aggregation: str = "max_group_mean"
    window: int | None = None

    @property
    def scoring(self) -> Scoring:
        """Of this case."""
        return Scoring(0.3 * 4 / math.sqrt(self.head_dim), self.softcap, self.aggregation)

    def inputs(self, dtype: torch.dtype) -> DecodeInputs:
        """Draw it; what is not to be read is nan, or an index out of range."""
        kv_heads, batch = self.retrieval + self.streaming, len(self.lengths)
        num_keys = self.anchors + self.tokens
        keys = normal(2, self.retrieval, num_keys + 3, self.head_dim, dtype=dtype, seed=1)
        keys = keys.to(DEVICE)
        keys[:, :, num_keys:] = torch.nan
        keys = keys[:, :, :num_keys]
        capacity = max(self.lengths) + 1
        own = normal(2, batch, kv_heads, capacity, self.head_dim, dtype=dtype, seed=2).to(DEVICE)
        for question, length in enumerate(self.lengths):
            own[:, question, :, length:] = torch.nan
            if self.window is not None:
                own[:, question, :, : max(0, length - self.window)] = torch.nan
        if self.window is not None:  # what no question's window shows
            keys[:, :, : max(0, self.anchors + min(self.lengths) - self.window)] = torch.nan
        offsets = runs(self.retrieval, self.clusters, self.tokens, seed=3)
        layer = ResidentLayer(
            keys[0],
            keys[1],
            self.anchors,
            surrounded(self._normal(self.retrieval, self.clusters, dtype=dtype, seed=4)),
            surrounded(offsets),
            self._upper(offsets, dtype) if self.upper else None,
            self._streaming(dtype) if self.streaming else None,
            self.window,
        )
        lengths = torch.tensor(self.lengths, dtype=torch.int32, device=DEVICE)
        apart = 0.2 * torch.arange(batch, device=DEVICE)  # questions keep to budgets of their own
        thresholds = torch.tensor([[self.level1], [self.level2]], device=DEVICE) + apart
        return DecodeInputs(
            surrounded(self._normal(batch, kv_heads * self.group, dtype=dtype, seed=5)),
            layer,
            QuestionKeys(own[0], own[1], surrounded(lengths)),
            surrounded(thresholds),
            self.scoring,
        )

    def _normal(self, *shape: int, dtype: torch.dtype, seed: int) -> Tensor:
        return normal(*shape, self.head_dim, dtype=dtype, seed=seed).to(DEVICE)

    def _upper(self, offsets: Tensor, dtype: torch.dtype) -> UpperLevel:
        over = runs(self.retrieval, self.upper, self.clusters, seed=6)
        centroids = self._normal(self.retrieval, self.upper, dtype=dtype, seed=7)
        level = upper_level(centroids, over, offsets)
        return UpperLevel(*(surrounded(getattr(level, field.name)) for field in fields(level)))

    def _streaming(self, dtype: torch.dtype) -> StreamingKeys:
        shape = (self.streaming, self.streaming_keys)
        log_weights = torch.zeros(shape, device=DEVICE)
        log_weights[:, -1] = math.log(DROPPED)
        return StreamingKeys(
            surrounded(self._normal(*shape, dtype=dtype, seed=8)),
            surrounded(self._normal(*shape, dtype=dtype, seed=9)),
            surrounded(log_weights),
        )


def windowed(window: int, **sizes: Any) -> Case:
    """A step of a layer with a sliding window."""
    return Case(streaming=0, tokens=0, clusters=0, window=window, **sizes)


def workspace_for(
    inputs: DecodeInputs, tuning: Tuning = SMALL, *, keep_token_scores: bool = False
) -> Workspace:
    """Buffers for a step."""
    sizes = sizes_of(inputs.layer, inputs.question, inputs.query.shape[1])
    dtype, device = inputs.query.dtype, inputs.query.device
    return allocate(sizes, dtype, device, tuning, keep_token_scores=keep_token_scores)


def runs(heads: int, count: int, total: int, seed: int) -> Tensor:
    """Offsets (heads, count + 1) int32 of runs that cover `total`; some are empty."""
    if count == 0:
        return torch.zeros(heads, 1, dtype=torch.int32, device=DEVICE)
    generator = torch.Generator().manual_seed(seed)
    cuts = torch.randint(0, total + 1, (heads, count - 1), generator=generator).sort().values
    cuts[:, count // 2 :] = cuts[:, count // 2 :].roll(1, 0)
    cuts = cuts.sort().values
    ends = torch.full((heads, 1), total)
    return torch.cat((torch.zeros_like(ends), cuts, ends), 1).int().to(DEVICE)
