"""Checks of what a decode step is given, by metadata alone: nothing waits for the GPU."""

import torch

from common.errors import ShapeError
from engine.kernels.decode.inputs import DecodeInputs, ResidentLayer, StreamingKeys, sizes_of
from engine.kernels.decode.workspace import Workspace
from engine.kernels.shared.checks import (
    check_contiguous,
    check_dims,
    check_heads,
    check_values,
)


def validate(inputs: DecodeInputs, work: Workspace) -> None:
    """Check what a step reads, and that its workspace is one for it.

    Raises: ShapeError if tensors do not fit together, do not fit the workspace, or lie in memory in
        another way than stated.
    """
    _check_inputs(inputs)
    _check_workspace(inputs, work)


def _check_inputs(inputs: DecodeInputs) -> None:
    batch, num_heads, head_dim = check_dims("query", inputs.query)
    dtype, device = inputs.query.dtype, inputs.query.device
    check_contiguous("query", inputs.query, (batch, num_heads, head_dim), dtype, device)
    check_contiguous("thresholds", inputs.thresholds, (2, batch), torch.float32, device)
    own = inputs.question
    _, kv_heads, capacity, _ = check_dims("question keys", own.keys, 4)
    shape = (batch, kv_heads, capacity, head_dim)
    check_contiguous("question keys", own.keys, shape, dtype, device)
    check_values(own.keys, own.values, device)
    check_contiguous("question lengths", own.lengths, (batch,), torch.int32, device)
    retrieval = _check_layer(inputs.layer, head_dim, dtype, device)
    streaming = inputs.layer.streaming
    num_streaming = 0
    if streaming is not None:
        num_streaming = _check_streaming(streaming, head_dim, dtype, device)
    if kv_heads == 0 or num_heads % kv_heads or retrieval + num_streaming != kv_heads:
        raise ShapeError(
            f"{num_heads} query heads for {kv_heads} KV heads, of which {retrieval} are "
            f"retrieval heads and {num_streaming} streaming heads."
        )


def _check_workspace(inputs: DecodeInputs, work: Workspace) -> None:
    query, out = inputs.query, work.out
    fits = sizes_of(inputs.layer, inputs.question, query.shape[1]) == work.sizes
    if not fits or query.shape != out.shape:
        raise ShapeError(
            f"Query {tuple(query.shape)}, keys {tuple(inputs.layer.keys.shape)} and question keys "
            f"{tuple(inputs.question.keys.shape)} do not fit a workspace for {work.sizes}."
        )
    if query.dtype != out.dtype or query.device != out.device:
        raise ShapeError(
            f"A query in {query.dtype} on {query.device} for a workspace in {out.dtype} on "
            f"{out.device}."
        )


def _check_layer(
    layer: ResidentLayer, head_dim: int, dtype: torch.dtype, device: torch.device
) -> int:
    """Check what retrieval heads read; returns how many they are."""
    heads, num_keys, _ = check_dims("keys", layer.keys)
    check_heads("keys", layer.keys, (heads, num_keys, head_dim), dtype, device)
    check_values(layer.keys, layer.values, device)
    if num_keys < layer.num_anchors:
        raise ShapeError(f"{num_keys} keys cannot begin with {layer.num_anchors} anchors.")
    _, clusters, _ = check_dims("centroids", layer.centroids)
    if layer.window is not None:
        is_bare = num_keys == layer.num_anchors and clusters == 0 and layer.streaming is None
        if layer.window < 1 or not is_bare:
            raise ShapeError(f"A layer with a window, of {layer.window}, has more than anchors.")
    check_contiguous("centroids", layer.centroids, (heads, clusters, head_dim), dtype, device)
    check_contiguous("offsets", layer.offsets, (heads, clusters + 1), torch.int32, device)
    if layer.upper is not None:
        upper, shape = layer.upper, layer.upper.centroids.shape
        check_dims("level-1 centroids", upper.centroids)
        check_contiguous(
            "level-1 centroids", upper.centroids, (heads, shape[1], head_dim), dtype, device
        )
        edges = (heads, shape[1] + 1)
        check_contiguous("level-1 offsets", upper.offsets, edges, torch.int32, device)
        check_contiguous("token offsets", upper.token_offsets, edges, torch.int32, device)
        check_contiguous("parents", upper.parents, (heads, clusters), torch.int32, device)
    return heads


def _check_streaming(
    streaming: StreamingKeys, head_dim: int, dtype: torch.dtype, device: torch.device
) -> int:
    """Check what streaming heads read; returns how many they are."""
    heads, num_keys, _ = check_dims("streaming keys", streaming.keys)
    check_contiguous("streaming keys", streaming.keys, (heads, num_keys, head_dim), dtype, device)
    check_values(streaming.keys, streaming.values, device)
    check_contiguous("log weights", streaming.log_weights, (heads, num_keys), torch.float32, device)
    return heads
