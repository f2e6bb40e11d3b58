"""The model's shape."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """Sizes of a Llama-architecture decoder with tied embeddings."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocabulary: int = 8192
    context_length: int = 132_096  # 131,072 and room for a question
    rope_theta: float = 1e6
    norm_epsilon: float = 1e-5


READER = Shape(layers=10, width=384, heads=6, kv_heads=3, head_dim=64, inner=1024)
TINY = Shape(layers=2, width=64, heads=2, kv_heads=1, head_dim=32, inner=128, context_length=2048)
