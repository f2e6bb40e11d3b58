"""What a decode step of one layer reads: the document's keys, and the questions' own."""

from dataclasses import dataclass

import torch
from torch import Tensor

from common.errors import ShapeError
from engine.kernels.shared.checks import (
    check_contiguous,
    check_dims,
    check_heads,
    check_values,
)


@dataclass(frozen=True)
class UpperLevel:
    """Level 1 of hierarchical lookup: cluster j is a contiguous run of level-2 clusters.

    Attributes:
        centroids: (retrieval heads, level-1 clusters, head_dim), contiguous.
        offsets: (retrieval heads, level-1 clusters + 1) int32, contiguous: run j is the level-2
            clusters offsets[j] to offsets[j + 1].
        token_offsets: the same runs, in clustered tokens.
        parents: (retrieval heads, level-2 clusters) int32, contiguous: the level-1 cluster that
            each level-2 cluster is in; -1 where that one has no tokens, as nobody selects it.
    """

    centroids: Tensor
    offsets: Tensor
    token_offsets: Tensor
    parents: Tensor


def upper_level(centroids: Tensor, offsets: Tensor, lower_offsets: Tensor) -> UpperLevel:
    """Derive level 1 of a hierarchical lookup from its stored parts.

    Args:
        centroids, offsets: as of `UpperLevel`.
        lower_offsets: (retrieval heads, level-2 clusters + 1) int32, in clustered tokens.
    Returns: level 1, with the parents of the level-2 clusters.
    """
    token_offsets = lower_offsets.gather(1, offsets.long())
    cluster = torch.arange(centroids.shape[1], dtype=torch.int32, device=offsets.device)
    names = torch.where(token_offsets.diff() > 0, cluster, -1)  # (retrieval heads, clusters)
    heads, num_lower = len(offsets), lower_offsets.shape[1] - 1
    parents = names.flatten().repeat_interleave(
        offsets.diff().flatten(), output_size=heads * num_lower
    )
    return UpperLevel(centroids, offsets, token_offsets, parents.view(heads, num_lower))


@dataclass(frozen=True)
class StreamingKeys:
    """All that streaming heads see of a document: sinks, window and compensation token.

    Attributes:
        keys, values: (streaming heads, num_keys, head_dim), contiguous.
        log_weights: (streaming heads, num_keys) fp32, contiguous, added to scores: log N_d for the
            compensation token, which stands for N_d tokens, else 0 (RazorAttention, equation 5).
    """

    keys: Tensor
    values: Tensor
    log_weights: Tensor


@dataclass(frozen=True)
class ResidentLayer:
    """One layer of a document, at fixed addresses; its first KV heads are the retrieval heads.

    Attributes:
        keys, values: (retrieval heads, num_anchors + clustered tokens, head_dim): first the
            anchors, which every token attends to, then the clustered tokens. Each head is
            contiguous; keys and values have equal strides.
        num_anchors: how many of them are anchors.
        centroids: (retrieval heads, clusters, head_dim) of level 2, contiguous.
        offsets: (retrieval heads, clusters + 1) int32, contiguous: cluster j is the run offsets[j]
            to offsets[j + 1] of clustered tokens; it may be empty.
        upper: level 1, or None for one-level lookup.
        streaming: the keys of the other KV heads, the streaming heads; None if there are none.
    """

    keys: Tensor
    values: Tensor
    num_anchors: int
    centroids: Tensor
    offsets: Tensor
    upper: UpperLevel | None = None
    streaming: StreamingKeys | None = None


@dataclass(frozen=True)
class QuestionKeys:
    """The keys of the questions themselves, in buffers of fixed size.

    Attributes:
        keys, values: (batch, kv_heads, capacity, head_dim), contiguous.
        lengths: (batch,) int32, contiguous: how many keys of each question are in use, the new
            token's own included. It is read on the device alone, so that a captured step sees what
            is there when it is replayed.
    """

    keys: Tensor
    values: Tensor
    lengths: Tensor


@dataclass(frozen=True)
class Scoring:
    """How keys are scored, and how the scores of a GQA group are aggregated.

    Attributes:
        scale, softcap: the model's own.
        aggregation: a name of `score_clusters.AGGREGATIONS`; with one token a question `mean` and
            `max_group_mean` are the same.
    """

    scale: float
    softcap: float | None = None
    aggregation: str = "max_group_mean"

    @property
    def by_maximum(self) -> bool:
        """Whether the group's largest share counts, not their mean."""
        return self.aggregation == "max"


@dataclass(frozen=True)
class DecodeInputs:
    """Everything that one layer's decode step reads: one new token of each question of a batch.

    Attributes:
        query: (batch, num_heads, head_dim), contiguous, after RoPE; query head h belongs to KV head
            h // group. All questions are about the same document.
        layer: the document's keys of this layer.
        question: the questions' own keys, those of the new tokens included.
        thresholds: (2, batch) fp32 in nats, contiguous, of level 1 and of level 2: a cluster is
            selected if the logarithm of its share of attention, aggregated over the GQA group,
            reaches the threshold of its level.
        scoring: how keys are scored.
    """

    query: Tensor
    layer: ResidentLayer
    question: QuestionKeys
    thresholds: Tensor
    scoring: Scoring

    def validate(self) -> None:
        """Check the tensors against each other, by their metadata alone.

        Raises: ShapeError if one does not fit or lies in memory in another way than stated.
        """
        batch, num_heads, head_dim = check_dims("query", self.query)
        dtype, device = self.query.dtype, self.query.device
        check_contiguous("query", self.query, (batch, num_heads, head_dim), dtype, device)
        check_contiguous("thresholds", self.thresholds, (2, batch), torch.float32, device)
        own = self.question
        _, kv_heads, capacity, _ = check_dims("question keys", own.keys, 4)
        shape = (batch, kv_heads, capacity, head_dim)
        check_contiguous("question keys", own.keys, shape, dtype, device)
        check_values(own.keys, own.values, device)
        check_contiguous("question lengths", own.lengths, (batch,), torch.int32, device)
        retrieval = _check_layer(self.layer, head_dim, dtype, device)
        streaming = self.layer.streaming
        num_streaming = 0
        if streaming is not None:
            num_streaming = _check_streaming(streaming, head_dim, dtype, device)
        if kv_heads == 0 or num_heads % kv_heads or retrieval + num_streaming != kv_heads:
            raise ShapeError(
                f"{num_heads} query heads for {kv_heads} KV heads, of which {retrieval} are "
                f"retrieval heads and {num_streaming} streaming heads."
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
