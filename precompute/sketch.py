"""A document's cache without its numbers: what it would look like, and how many bytes it has."""

import torch
from torch import Tensor

from engine.document.budget import NO_CURVES
from engine.document.cache import (
    Clusters,
    DocumentCache,
    LayerCache,
    ScopedHeads,
    StreamingCache,
    no_clusters,
)
from engine.document.cache_bytes import CacheBytes
from engine.model.head_plan import HeadPlan
from engine.model.spec import LayerSpec, ModelSpec
from precompute.config import PrecomputeConfig

META = torch.device("meta")
LONG = 1 << 17  # tokens, beyond every window: from here on a cache grows evenly


def cache_bytes(
    spec: ModelSpec, plan: HeadPlan, settings: PrecomputeConfig, dtype: torch.dtype
) -> CacheBytes:
    """Return the bytes that documents take in memory, told from documents of two lengths."""
    short, long = (
        sketch_document(spec, plan, settings, num_tokens, dtype).num_bytes
        for num_tokens in (LONG, 2 * LONG)
    )
    per_token = (long - short) / LONG
    return CacheBytes(per_token, max(0.0, short - per_token * LONG))


def sketch_document(
    spec: ModelSpec,
    plan: HeadPlan,
    settings: PrecomputeConfig,
    num_tokens: int,
    dtype: torch.dtype,
) -> DocumentCache:
    """Lay out a document of tensors that have shapes alone, as `precompute_document` lays it out.

    Args:
        num_tokens: of the document.
        dtype: of keys and values.
    Returns: the document; heads with linear biases (ALiBi) keep all of it, which is the most that
        their weights may make them keep.
    """
    layers = tuple(
        _sketch_layer(layer, plan, index, settings, num_tokens, dtype)
        for index, layer in enumerate(spec.layers)
    )
    return DocumentCache(
        layers=layers,
        ids=torch.empty(num_tokens, dtype=torch.int64, device=META),
        offsets=torch.empty(num_tokens, 2, dtype=torch.int32, device=META),
        text="",
        pages=(),
        num_sinks=min(settings.num_sinks, num_tokens),
        lookup=settings.lookup,
        curves=NO_CURVES,
    )


def _sketch_layer(
    layer: LayerSpec,
    plan: HeadPlan,
    index: int,
    settings: PrecomputeConfig,
    num_tokens: int,
    dtype: torch.dtype,
) -> LayerCache:
    def vectors(heads: int, tokens: int) -> Tensor:
        return torch.empty(heads, tokens, layer.head_dim, dtype=dtype, device=META)

    def clusters(heads: int, ratio: float, tokens: int) -> Clusters:
        count = max(1, round(ratio * tokens))
        offsets = torch.empty(heads, count + 1, dtype=torch.int32, device=META)
        return Clusters(vectors(heads, count), offsets)

    heads, kept = layer.num_kv_heads, num_tokens
    streaming: StreamingCache | None = None
    scoped: tuple[ScopedHeads, ...] = ()
    anchors = min(num_tokens, settings.num_sinks + settings.num_tail)
    if layer.alibi is not None:
        everything = vectors(heads, num_tokens)
        heads, scoped = 0, (ScopedHeads(tuple(range(heads)), everything, everything),)
    elif layer.window is not None:
        kept = anchors = min(layer.window, num_tokens)
    elif (retrieval := plan.num_retrieval(index)) < heads:
        most = plan.num_sinks + plan.window_for(num_tokens)
        dropped = max(0, num_tokens - most)
        cache = vectors(heads - retrieval, min(most, num_tokens) + (dropped > 0))
        heads, streaming = retrieval, StreamingCache(cache, cache, dropped)
    keys = vectors(heads, kept)
    level1 = level2 = no_clusters(keys)
    if heads and kept > anchors:
        level2 = clusters(heads, settings.level2_ratio, kept - anchors)
        level1 = clusters(heads, settings.level1_ratio, kept - anchors)
    return LayerCache(
        keys=keys,
        values=keys,
        positions=torch.empty(heads, kept, dtype=torch.int32, device=META),
        num_anchors=anchors,
        level2=level2,
        level1=level1,
        window=layer.window,
        streaming=streaming,
        scoped=scoped,
    )
