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
    rope_theta: float = 4e6  # measured: docs/decisions/0011
    norm_epsilon: float = 1e-5


READER = Shape(layers=10, width=384, heads=6, kv_heads=3, head_dim=64, inner=1024)
TINY = Shape(layers=2, width=64, heads=2, kv_heads=1, head_dim=32, inner=128, context_length=2048)

# Other ways to spend 40 MB in bf16, which bench.reader_shapes compares with the reader's.
OTHERS = {
    "wide": Shape(layers=6, width=512, heads=8, kv_heads=4, head_dim=64, inner=1152),
    "deep": Shape(layers=14, width=320, heads=5, kv_heads=5, head_dim=64, inner=832),
    "attentive": Shape(layers=12, width=384, heads=6, kv_heads=3, head_dim=64, inner=768),
}
SHAPES = {"reader": READER, "tiny": TINY, **OTHERS}
