"""Models with random weights and synthetic documents for them, of any length, on one GPU.

Reading a document of 512K tokens would tell nothing about decoding that a synthetic one does not:
its keys are of `bench.kernels.layer`, whose clusters, sizes and uneven heads are described there.
The model's query projections are drawn so that its heads are as sharp as those.
"""

import torch
from torch import Tensor
from transformers import AutoTokenizer

from bench.kernels.layer import GROUP_LIKENESS, KEY_NOISE, SHARPNESS, Shape, draw_layer
from bench.random_llama import ModelShape, random_llama
from engine.config import LookupConfig
from engine.document.budget import NO_CURVES
from engine.document.cache import (
    Clusters,
    DocumentCache,
    LayerCache,
    Page,
    StreamingCache,
    no_clusters,
)
from engine.model.head_plan import HeadPlan
from engine.model.loader import LoadedModel, assemble
from engine.model.spec import LayerSpec
from reader import WEIGHTS

TOKENIZER = str(WEIGHTS)  # any will do: only ids are asked
NUM_ANCHORS, STREAMING_SINKS, STREAMING_WINDOW = 144, 64, 256


def draw_model(
    shape: ModelShape, context_length: int, *, streaming: bool, device: str
) -> LoadedModel:
    """Random weights in bf16; with `streaming` every other KV head streams."""
    model = random_llama(shape, context_length, device)
    for layer in model.model.layers:
        _sharpen(layer.self_attn.q_proj.weight, shape)
    heads = tuple(not streaming or head % 2 == 0 for head in range(shape.kv_heads))
    return assemble(
        model,
        AutoTokenizer.from_pretrained(TOKENIZER),
        name="synthetic",
        fingerprint="synthetic",
        plan=HeadPlan("file", (heads,) * shape.num_layers, STREAMING_SINKS, STREAMING_WINDOW),
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
    weights = (shared + own) * wanted[:, None, None, None] / s.hidden_size**0.5
    weight.copy_(weights.reshape(weight.shape))


def draw_document(model: LoadedModel, num_tokens: int) -> DocumentCache:
    """A document as long as that, without curves."""
    heads = max(layer.num_kv_heads for layer in model.spec.layers)
    places = torch.arange(num_tokens, dtype=torch.int32, device=model.device).repeat(heads, 1)
    return DocumentCache(
        layers=tuple(
            _clustered(spec, model.plan.num_retrieval(index), places, index)
            if spec.window is None
            else _windowed(spec, places, index)
            for index, spec in enumerate(model.spec.layers)
        ),
        ids=torch.zeros(num_tokens, dtype=torch.int64),
        offsets=torch.full((num_tokens, 2), -1, dtype=torch.int64),
        text="",
        pages=(Page(1, 0, 0),),
        num_sinks=4,
        lookup=LookupConfig(),
        curves=NO_CURVES,
    )


def _clustered(spec: LayerSpec, retrieval: int, places: Tensor, seed: int) -> LayerCache:
    """A layer whose first heads are retrieval heads; places: (heads, tokens), which all share."""
    num_tokens, device = places.shape[1], str(places.device)
    layer = draw_layer(
        Shape(
            num_tokens - NUM_ANCHORS,
            num_heads=retrieval,
            kv_heads=retrieval,
            head_dim=spec.head_dim,
            num_anchors=NUM_ANCHORS,
        ),
        seed=seed,
        device=device,
    )
    others = spec.num_kv_heads - retrieval
    return LayerCache(
        keys=layer.keys,
        values=layer.values,
        positions=places[:retrieval],
        num_anchors=NUM_ANCHORS,
        level2=Clusters(layer.centroids, layer.offsets),
        level1=Clusters(layer.upper_centroids, layer.upper_offsets),
        streaming=_streaming(others, spec.head_dim, num_tokens, seed, device),
    )


def _windowed(spec: LayerSpec, places: Tensor, seed: int) -> LayerCache:
    """A layer with a sliding window, which keeps the document's last tokens."""
    generator = torch.Generator(places.device).manual_seed(seed)
    num_kept = min(spec.window or 0, places.shape[1])
    size = (2, spec.num_kv_heads, num_kept, spec.head_dim)
    held = torch.randn(size, generator=generator, device=places.device).bfloat16()
    return LayerCache(
        keys=held[0],
        values=held[1],
        positions=places[: spec.num_kv_heads, -num_kept:].contiguous(),
        num_anchors=num_kept,
        level2=no_clusters(held[0]),
        level1=no_clusters(held[0]),
        window=spec.window,
    )


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
