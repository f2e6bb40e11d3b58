"""A layer of a document as decode kernels read it."""

import math

import torch

from common.errors import UnsupportedModel
from engine.config import LookupConfig
from engine.document.cache import LayerCache, StreamingCache
from engine.kernels.decode.inputs import ResidentLayer, StreamingKeys, upper_level


def resident_layer(cache: LayerCache, lookup: LookupConfig) -> ResidentLayer:
    """The layer's own tensors, none of them copied, and the parents of its level-2 clusters.

    Raises: UnsupportedModel for a layer with linear biases.
    """
    if cache.scoped:
        raise UnsupportedModel("Layers with linear biases have no decode kernel.")
    upper = None
    if lookup.levels == 2 and cache.has_clusters:
        upper = upper_level(cache.level1.centroids, cache.level1.offsets, cache.level2.offsets)
    return ResidentLayer(
        keys=cache.keys,
        values=cache.values,
        num_anchors=cache.num_anchors,
        centroids=cache.level2.centroids,
        offsets=cache.level2.offsets,
        upper=upper,
        streaming=None if cache.streaming is None else streaming_keys(cache.streaming),
        window=cache.window,
    )


def streaming_keys(cache: StreamingCache) -> StreamingKeys:
    """What streaming heads keep, with the weight of the compensation token."""
    log_weights = torch.zeros(cache.keys.shape[:2], device=cache.keys.device)
    if cache.num_dropped > 0:
        log_weights[:, -1] = math.log(cache.num_dropped)
    return StreamingKeys(cache.keys, cache.values, log_weights)
