"""The document cache of no document: what a chat with the model alone is asked about."""

import torch

from engine.config import LookupConfig
from engine.document.budget import BudgetCurve, BudgetCurves, Thresholds
from engine.document.cache import (
    DocumentCache,
    LayerCache,
    LengthChoices,
    ScopedHeads,
    no_clusters,
)
from engine.model.loader import LoadedModel
from engine.model.spec import LayerSpec

READS_ALL = BudgetCurve((1.0,), (Thresholds(-1e30, -1e30),))


def empty_document(model: LoadedModel) -> DocumentCache:
    """Make a document cache without a token, on the model's device in its dtype.

    Returns: layers of all KV heads without keys; every budget reads all there is, which is nothing.
    """
    return DocumentCache(
        layers=tuple(_empty_layer(layer, model) for layer in model.spec.layers),
        ids=torch.zeros(0, dtype=torch.int64),
        offsets=torch.zeros(0, 2, dtype=torch.int32),
        text="",
        pages=(),
        num_sinks=0,
        lookup=LookupConfig(),
        curves=BudgetCurves(READS_ALL, READS_ALL),
        choices=LengthChoices(rope=model.rope_for(0)),
    )


def _empty_layer(layer: LayerSpec, model: LoadedModel) -> LayerCache:
    shape = (layer.num_kv_heads, 0, layer.head_dim)
    keys = torch.zeros(shape, dtype=model.dtype, device=model.device)
    scoped: tuple[ScopedHeads, ...] = ()
    if layer.alibi is not None:
        scoped = (ScopedHeads(tuple(range(layer.num_kv_heads)), keys, keys),)
        keys = keys[:0]
    return LayerCache(
        keys=keys,
        values=keys,
        positions=torch.zeros(keys.shape[:2], dtype=torch.int32, device=model.device),
        num_anchors=0,
        level2=no_clusters(keys),
        level1=no_clusters(keys),
        window=layer.window,
        scoped=scoped,
    )
