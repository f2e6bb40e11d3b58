"""The reader in plain torch, for training alone: evaluation goes through the engine.

Parameter names are those of transformers' LlamaForCausalLM, so weights need no conversion.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


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
    rope_theta: float = 4e6  # measured: NOTES.md
    norm_epsilon: float = 1e-5


READER = Shape(layers=10, width=384, heads=6, kv_heads=3, head_dim=64, inner=1024)
TINY = Shape(layers=2, width=64, heads=2, kv_heads=1, head_dim=32, inner=128, context_length=2048)

# Other ways to spend 40 MB in bf16, which training.compare compares with the reader's.
OTHER_SHAPES = {
    "wide": Shape(layers=6, width=512, heads=8, kv_heads=4, head_dim=64, inner=1152),
    "deep": Shape(layers=14, width=320, heads=5, kv_heads=5, head_dim=64, inner=832),
    "attentive": Shape(layers=12, width=384, heads=6, kv_heads=3, head_dim=64, inner=768),
}
SHAPES = {"reader": READER, "tiny": TINY, **OTHER_SHAPES}

# (layer, queries (B, heads, T, d), keys (B, kv, T, d), values) -> (B, heads, T, d)
Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]


class Norm(nn.Module):
    """RMSNorm with a gain."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self._epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last dimension in fp32."""
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self._epsilon)
        return self.weight.to(x.dtype) * scaled.to(x.dtype)


class Attention(nn.Module):
    """Grouped-query attention with rotary positions, but for the attending itself."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self._head_dim = shape.head_dim
        inner, inner_kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.q_proj = nn.Linear(shape.width, inner, bias=False)
        self.k_proj = nn.Linear(shape.width, inner_kv, bias=False)
        self.v_proj = nn.Linear(shape.width, inner_kv, bias=False)
        self.o_proj = nn.Linear(inner, shape.width, bias=False)

    def project(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values (B, heads, T, d) of x (B, T, width)."""
        q, k, v = (
            project(x).unflatten(-1, (-1, self._head_dim)).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        return rotate(q, cos, sin), rotate(k, cos, sin), v

    def merge(self, out: Tensor) -> Tensor:
        """What the heads found (B, heads, T, d), as (B, T, width)."""
        merged: Tensor = self.o_proj(out.transpose(1, 2).flatten(-2))
        return merged


class Gate(nn.Module):
    """SwiGLU."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.width, shape.inner, bias=False)
        self.up_proj = nn.Linear(shape.width, shape.inner, bias=False)
        self.down_proj = nn.Linear(shape.inner, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Apply to the last dimension."""
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Block(nn.Module):
    """Attention and SwiGLU, each behind a norm and beside a residual."""

    def __init__(self, shape: Shape, layer: int) -> None:
        super().__init__()
        self._layer = layer
        self.input_layernorm = Norm(shape.width, shape.norm_epsilon)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = Norm(shape.width, shape.norm_epsilon)
        self.mlp = Gate(shape)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, attend: Attend) -> Tensor:
        """One layer; x is (B, T, width), cos and sin are (B or 1, 1, T, d)."""
        return self.close(x, attend(self._layer, *self.open(x, cos, sin)))

    def open(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The layer up to its attention."""
        return self.self_attn.project(self.input_layernorm(x), cos, sin)

    def close(self, x: Tensor, out: Tensor) -> Tensor:
        """The layer from its attention on."""
        x = x + self.self_attn.merge(out)
        closed: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return closed


class Stack(nn.Module):
    """Embedding, layers and the final norm."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(Block(shape, layer) for layer in range(shape.layers))
        self.norm = Norm(shape.width, shape.norm_epsilon)


class Reader(nn.Module):
    """The whole decoder; input and output embeddings are tied."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.model = Stack(shape)
        self.apply(_initialise)
        for block in self.model.layers:  # residual branches start small
            for name in ("self_attn.o_proj", "mlp.down_proj"):
                weight = block.get_submodule(name).weight
                nn.init.normal_(weight, std=0.02 / (2 * shape.layers) ** 0.5)  # type: ignore[arg-type]

    def forward(self, ids: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Hidden states (B, T, width) of ids (B, T) at positions (B or 1, T)."""
        cos, sin = rotary(positions, self.shape)
        x = self.model.embed_tokens(ids)
        for block in self.model.layers:
            x = block(x, cos, sin, attend)
        out: Tensor = self.model.norm(x)
        return out

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores of the next token, (..., vocabulary)."""
        return F.linear(hidden, self.model.embed_tokens.weight.to(hidden.dtype))


def compile_blocks(reader: Reader) -> None:
    """Compile what lies between the attentions: once for all layers, whatever is attended to."""
    opened: Any = torch.compile(Block.open, dynamic=False)
    closed: Any = torch.compile(Block.close, dynamic=False)
    for block in reader.model.layers:
        vars(block).update(open=partial(opened, block), close=partial(closed, block))


def attend_causal(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Full causal attention over the given keys alone."""
    del layer
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def attend_rows(length: int) -> Attend:
    """Full causal attention within rows of `length` tokens that lie one after another, (1, ...)."""

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        rows = (torch.unflatten(part[0], 1, (-1, length)).transpose(0, 1) for part in (q, k, v))
        return attend_causal(layer, *rows).transpose(0, 1).flatten(1, 2)[None]

    return attend


def rotary(positions: Tensor, shape: Shape) -> tuple[Tensor, Tensor]:
    """Cosines and sines (B or 1, 1, T, d) of rotary positions, fp32."""
    steps = torch.arange(0, shape.head_dim, 2, device=positions.device, dtype=torch.float32)
    angles = positions[..., None].float() * shape.rope_theta ** (-steps / shape.head_dim)
    angles = torch.cat([angles, angles], -1)[:, None]
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn pairs (i, i + d/2) of the last dimension by their angles."""
    low, high = x.chunk(2, -1)
    turned = torch.cat([-high, low], -1)
    return (x * cos + turned * sin).to(x.dtype)


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
