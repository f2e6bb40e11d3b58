"""Models with random weights and documents drawn for them, of any length, on one GPU.

Reading a document of 512K tokens would tell nothing about decoding that a drawn one does not: its
keys are of `bench.kernels.common`, whose clusters, sizes and uneven heads are described there. The
model's query projections are drawn so that its heads are as sharp as those.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from bench.kernels.common import GROUP_LIKENESS, KEY_NOISE, SHARPNESS, Shape, draw_layer
from engine.curve import EVERYTHING
from engine.decoders import DecodeConfig
from engine.document import Clusters, DocumentCache, LayerCache, LookupConfig, Page, StreamingCache
from engine.model import LoadedModel, assemble
from engine.plan import HeadPlan

TOKENIZER = "reader/weights"  # any will do: only ids are asked
NUM_ANCHORS, STREAMING_SINKS, STREAMING_WINDOW = 144, 64, 256
SPREAD = 0.02  # standard deviation of weights


@dataclass(frozen=True)
class ModelShape:
    """A Llama's sizes."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    kv_heads: int

    @property
    def head_dim(self) -> int:
        """Of every head."""
        return self.hidden_size // self.num_heads

    def document_bytes(self, num_tokens: int, retrieval: float) -> int:
        """Keys and values of a document in bf16, a share of whose heads keep all of it."""
        heads = self.num_layers * self.kv_heads * retrieval
        return int(4 * self.head_dim * heads * num_tokens)


SHAPES = {
    "llama3_8b": ModelShape(128_256, 4096, 14_336, 32, 32, 8),
    "llama2_7b": ModelShape(32_000, 4096, 11_008, 32, 32, 32),
}


def draw_model(
    shape: ModelShape, context_length: int, *, streaming: bool, config: DecodeConfig, device: str
) -> LoadedModel:
    """Random weights in bf16; with `streaming` every other KV head streams."""
    s = shape
    llama = LlamaConfig(
        vocab_size=s.vocab_size,
        hidden_size=s.hidden_size,
        intermediate_size=s.intermediate_size,
        num_hidden_layers=s.num_layers,
        num_attention_heads=s.num_heads,
        num_key_value_heads=s.kv_heads,
        max_position_embeddings=context_length,
        initializer_range=SPREAD,
        rope_parameters={"rope_type": "default", "rope_theta": 5e5},
        dtype="bfloat16",
    )
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model: Any = LlamaForCausalLM(llama)  # type: ignore[no-untyped-call]
    torch.set_default_dtype(before)
    model.eval().requires_grad_(False)
    for layer in model.model.layers:
        _sharpen(layer.self_attn.q_proj.weight, s)
    heads = tuple(not streaming or head % 2 == 0 for head in range(s.kv_heads))
    return assemble(
        model,
        AutoTokenizer.from_pretrained(TOKENIZER),
        name="drawn",
        fingerprint="drawn",
        plan=HeadPlan("file", (heads,) * s.num_layers, STREAMING_SINKS, STREAMING_WINDOW),
        decoding=config,
    )


def _sharpen(weight: Tensor, shape: ModelShape) -> None:
    """Draw a query projection (heads x head_dim, hidden): groups agree, KV heads differ.

    A score's deviation is that of the query's elements times the keys', as the scale is the root
    of head_dim; the input is normalised, so the former is that of the weights times the root of
    its width.
    """
    s, group = shape, shape.num_heads // shape.kv_heads
    size = (s.kv_heads, group, s.head_dim, s.hidden_size)
    shared = torch.randn(size[0], 1, *size[2:], device=weight.device) * GROUP_LIKENESS**0.5
    own = torch.randn(size, device=weight.device) * (1 - GROUP_LIKENESS) ** 0.5
    low, high = SHARPNESS
    steps = torch.linspace(0.0, 1.0, s.kv_heads, device=weight.device)
    wanted = low * (high / low) ** steps / (1 + KEY_NOISE**2) ** 0.5
    drawn = (shared + own) * wanted[:, None, None, None] / s.hidden_size**0.5
    weight.copy_(drawn.reshape(weight.shape))


def draw_document(model: LoadedModel, num_tokens: int) -> DocumentCache:
    """A document as long as that, without curves."""
    device = str(model.device)
    layers: list[LayerCache] = []
    for index, spec in enumerate(model.spec.layers):
        retrieval = model.plan.num_retrieval(index)
        drawn = draw_layer(
            Shape(
                num_tokens - NUM_ANCHORS,
                num_heads=retrieval,
                kv_heads=retrieval,
                head_dim=spec.head_dim,
                num_anchors=NUM_ANCHORS,
            ),
            seed=index,
            device=device,
        )
        places = layers[0].positions if layers else _places(retrieval, num_tokens, device)
        layers.append(
            LayerCache(
                keys=drawn.keys,
                values=drawn.values,
                positions=places,
                num_anchors=NUM_ANCHORS,
                level2=Clusters(drawn.centroids, drawn.offsets),
                level1=Clusters(drawn.upper_centroids, drawn.upper_offsets),
                streaming=_streaming(spec.num_kv_heads - retrieval, spec.head_dim, num_tokens,
                                     index, device),
            )
        )  # fmt: skip
    return DocumentCache(
        layers=tuple(layers),
        ids=torch.zeros(num_tokens, dtype=torch.int64),
        offsets=torch.full((num_tokens, 2), -1, dtype=torch.int64),
        text="",
        pages=(Page(1, 0, 0),),
        num_sinks=4,
        lookup=LookupConfig(),
        curves=EVERYTHING,
    )


def _places(heads: int, num_tokens: int, device: str) -> Tensor:
    places = torch.arange(num_tokens, dtype=torch.int32, device=device)
    return places.expand(heads, -1).contiguous()


def _streaming(
    heads: int, head_dim: int, num_tokens: int, seed: int, device: str
) -> StreamingCache | None:
    if heads == 0:
        return None
    generator = torch.Generator(device).manual_seed(seed)
    kept = STREAMING_SINKS + STREAMING_WINDOW
    size = (2, heads, kept + 1, head_dim)
    held = torch.randn(size, generator=generator, device=device).bfloat16()
    return StreamingCache(held[0], held[1], num_dropped=num_tokens - kept)
