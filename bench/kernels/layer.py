"""A layer's document cache and questions, drawn with the traits that make real ones hard.

Clusters of log-normal sizes lie around level-2 centroids, themselves grouped around level-1
centroids, and heads' attention is flat or sharp, so that one threshold loads very different shares
of them.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

LIKENESS = 0.7  # share of a level-2 centroid's variance that its level-1 cluster explains
SIZE_SPREAD = 0.8  # standard deviation of the logarithm of cluster sizes
KEY_NOISE = 0.3  # standard deviation of a key around its centroid, whose own is about 1
SHARPNESS = (0.5, 4.0)  # standard deviation of scores in the flattest and the sharpest head
GROUP_LIKENESS = 0.7  # share of a query's variance that its GQA group has in common


@dataclass(frozen=True)
class Shape:
    """A layer's shape: Llama-3-8B's by default.

    Attributes:
        num_keys: clustered keys of a KV head.
        softcap: the model's cap on scores, or None.
    """

    num_keys: int
    num_heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    num_anchors: int = 144
    centroid_share: float = 0.05
    upper_share: float = 0.005
    softcap: float | None = None

    @property
    def num_clusters(self) -> int:
        """Level-2 clusters a head."""
        return int(self.num_keys * self.centroid_share)

    @property
    def num_upper(self) -> int:
        """Level-1 clusters a head."""
        return int(self.num_keys * self.upper_share)

    @property
    def scale(self) -> float:
        """Factor on scores."""
        return 1.0 / math.sqrt(self.head_dim)


# Layers of models at which kernels are checked.
MODELS: dict[str, dict[str, Any]] = {
    "llama2_7b": {"num_heads": 32, "kv_heads": 32},
    "llama3_8b": {"num_heads": 32, "kv_heads": 8},
    "qwen2.5_7b": {"num_heads": 28, "kv_heads": 4},
    "qwen3_8b": {"num_heads": 32, "kv_heads": 8},
    "gemma2_9b": {"num_heads": 16, "kv_heads": 8, "head_dim": 256, "softcap": 50.0},
    "gemma3_12b": {"num_heads": 16, "kv_heads": 8, "head_dim": 256},
}


def shape_of(model: str, num_keys: int) -> Shape:
    """The shape of a layer of one of `MODELS`, with so many clustered keys a KV head."""
    return Shape(num_keys, **MODELS[model])


@dataclass(frozen=True)
class Layer:
    """A synthetic layer's document cache, as the engine holds one.

    Attributes:
        keys, values: (kv_heads, num_anchors + num_keys, head_dim) bf16, anchors first.
        num_anchors: sinks and exact tail.
        centroids, offsets: level 2, (kv_heads, clusters, head_dim) and (kv_heads, clusters + 1)
            int32 in clustered tokens.
        upper_centroids, upper_offsets: level 1, offsets in level-2 clusters.
    """

    keys: Tensor
    values: Tensor
    num_anchors: int
    centroids: Tensor
    offsets: Tensor
    upper_centroids: Tensor
    upper_offsets: Tensor


def draw_layer(shape: Shape, seed: int, device: str = "cuda") -> Layer:
    """Draw one layer's document cache in bf16, with `shape.num_keys` clustered keys a head."""
    generator = torch.Generator(device).manual_seed(seed)
    s, tokens = shape, shape.num_keys + shape.num_anchors
    size = (s.kv_heads, tokens, s.head_dim)
    keys = torch.empty(size, dtype=torch.bfloat16, device=device)
    values = torch.empty_like(keys).normal_(generator=generator)
    centroids2, offsets2, centroids1, offsets1 = [], [], [], []
    for head in range(s.kv_heads):
        upper = torch.randn(s.num_upper, s.head_dim, generator=generator, device=device)
        children = _sizes(s.num_clusters, s.num_upper, generator)
        lower = torch.randn(s.num_clusters, s.head_dim, generator=generator, device=device)
        lower = lower * (1 - LIKENESS) ** 0.5
        lower += LIKENESS**0.5 * upper.repeat_interleave(children, 0)
        sizes = _sizes(s.num_keys, s.num_clusters, generator)
        noise = torch.randn(tokens, s.head_dim, generator=generator, device=device) * KEY_NOISE
        noise[s.num_anchors :] += lower.repeat_interleave(sizes, 0)
        keys[head] = noise
        centroids2.append(_means(keys[head, s.num_anchors :].float(), sizes).bfloat16())
        offsets2.append(_offsets(sizes))
        centroids1.append(_means(lower, children, sizes).bfloat16())
        offsets1.append(_offsets(children))
    return Layer(
        keys=keys,
        values=values,
        num_anchors=s.num_anchors,
        centroids=torch.stack(centroids2),
        offsets=torch.stack(offsets2),
        upper_centroids=torch.stack(centroids1),
        upper_offsets=torch.stack(offsets1),
    )


def draw_queries(shape: Shape, num_tokens: int, seed: int, device: str = "cuda") -> Tensor:
    """Draw queries (num_tokens, num_heads, head_dim) in bf16; KV heads differ in sharpness."""
    generator = torch.Generator(device).manual_seed(seed)
    s, group = shape, shape.num_heads // shape.kv_heads
    size = (num_tokens, s.kv_heads, 1, s.head_dim)
    shared = torch.randn(size, generator=generator, device=device) * GROUP_LIKENESS**0.5
    own = torch.randn(num_tokens, s.kv_heads, group, s.head_dim, generator=generator, device=device)
    low, high = SHARPNESS
    steps = torch.linspace(0.0, 1.0, s.kv_heads, device=device)
    sharpness = low * (high / low) ** steps[None, :, None, None]
    # A score is scale x sum of head_dim products: with keys of variance 1 its deviation is |q|'s.
    query = (shared + own * (1 - GROUP_LIKENESS) ** 0.5) * sharpness
    rows: Tensor = query.reshape(num_tokens, s.num_heads, s.head_dim).bfloat16()
    return rows


def _sizes(total: int, count: int, generator: torch.Generator) -> Tensor:
    """Log-normal sizes of `count` clusters that add up to `total`, all at least 1."""
    noise = torch.randn(count, generator=generator, device=generator.device, dtype=torch.float64)
    weights = (noise * SIZE_SPREAD).exp()
    ends = (weights.cumsum(0) / weights.sum() * (total - count)).round().long()
    return ends.diff(prepend=ends.new_zeros(1)) + 1


def _offsets(sizes: Tensor) -> Tensor:
    return torch.cat((sizes.new_zeros(1), sizes.cumsum(0))).int()


def _means(rows: Tensor, sizes: Tensor, weights: Tensor | None = None) -> Tensor:
    """Means of consecutive runs of rows, weighted if weights are given."""
    owner = torch.arange(len(sizes), device=rows.device).repeat_interleave(sizes)
    each = torch.ones(len(rows), device=rows.device) if weights is None else weights.float()
    total = torch.zeros(len(sizes), rows.shape[1], device=rows.device)
    total.index_add_(0, owner, rows * each[:, None])
    mass = torch.zeros(len(sizes), device=rows.device).index_add_(0, owner, each)
    return total / mass[:, None]
