"""What a decode step of one layer reads, the document's keys and the questions' own; its sizes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.kernels.shared.sizes import power_of_two


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
        window: the layer's sliding window: a token sees itself and the `window - 1` tokens before
            it. All keys are then anchors, those of the document's last tokens in their order, and
            there are neither clusters nor streaming heads. None for a layer without.
    """

    keys: Tensor
    values: Tensor
    num_anchors: int
    centroids: Tensor
    offsets: Tensor
    upper: UpperLevel | None = None
    streaming: StreamingKeys | None = None
    window: int | None = None


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


@dataclass(frozen=True)
class StepSizes:
    """Sizes of one layer's decode step: layers of equal sizes can share a workspace.

    Attributes:
        batch: questions of the step, all about the one document.
        num_heads: query heads.
        kv_heads: KV heads, of which the first `retrieval` are retrieval heads.
        head_dim: width of a key.
        retrieval: retrieval heads, which have clusters.
        num_anchors: anchors of each retrieval head.
        num_keys: clustered tokens of each retrieval head.
        num_clusters: level-2 clusters of each retrieval head.
        num_upper: its level-1 clusters; 0 for one-level lookup.
        num_streaming_keys: keys of each streaming head.
        capacity: keys that a question may have.
    """

    batch: int
    num_heads: int
    kv_heads: int
    head_dim: int
    retrieval: int
    num_anchors: int
    num_keys: int
    num_clusters: int
    num_upper: int
    num_streaming_keys: int
    capacity: int

    @property
    def group(self) -> int:
        """Query heads per KV head."""
        return self.num_heads // self.kv_heads

    @property
    def group_pad(self) -> int:
        """Rows that a question's group takes in a tile of queries."""
        return power_of_two(self.group)

    @property
    def rows(self) -> int:
        """Rows of all questions in a tile: row b x group_pad + g is head g of question b."""
        return power_of_two(self.batch) * self.group_pad


def sizes_of(layer: ResidentLayer, question: QuestionKeys, num_heads: int) -> StepSizes:
    """Return the sizes of a step.

    Args:
        layer, question: what the step reads.
        num_heads: query heads.
    """
    batch, kv_heads, capacity, head_dim = question.keys.shape
    return StepSizes(
        batch=batch,
        num_heads=num_heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        retrieval=layer.keys.shape[0],
        num_anchors=layer.num_anchors,
        num_keys=layer.keys.shape[1] - layer.num_anchors,
        num_clusters=layer.centroids.shape[1],
        num_upper=0 if layer.upper is None else layer.upper.centroids.shape[1],
        num_streaming_keys=0 if layer.streaming is None else layer.streaming.keys.shape[1],
        capacity=capacity,
    )
