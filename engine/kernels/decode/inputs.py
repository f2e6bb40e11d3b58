"""What a decode step of one layer reads: the document's keys, and the questions' own."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class UpperLevel:
    """Level 1 of hierarchical lookup; cluster j is a contiguous run of level-2 clusters.

    Attributes:
        centroids: (retrieval heads, level-1 clusters, head_dim), contiguous.
        offsets: (retrieval heads, level-1 clusters + 1) int32, in level-2 clusters.
        token_offsets: the same runs, in clustered tokens.
        parents: (retrieval heads, level-2 clusters) int32, the cluster that each is in; -1 where
            that has no tokens, as nobody keeps it.
    """

    centroids: Tensor
    offsets: Tensor
    token_offsets: Tensor
    parents: Tensor


def upper_level(centroids: Tensor, offsets: Tensor, lower_offsets: Tensor) -> UpperLevel:
    """Level 1 above level-2 clusters with offsets `lower_offsets`; offsets as `UpperLevel`'s."""
    token_offsets = lower_offsets.gather(1, offsets.long())
    cluster = torch.arange(centroids.shape[1], dtype=torch.int32, device=offsets.device)
    named = torch.where(token_offsets.diff() > 0, cluster, -1)  # (retrieval heads, clusters)
    heads, clusters = len(offsets), lower_offsets.shape[1] - 1
    parents = named.flatten().repeat_interleave(
        offsets.diff().flatten(), output_size=heads * clusters
    )
    return UpperLevel(centroids, offsets, token_offsets, parents.view(heads, clusters))


@dataclass(frozen=True)
class StreamingKeys:
    """All that streaming heads see of a document: sinks, window and compensation token.

    Attributes:
        keys, values: (streaming heads, num_keys, head_dim), contiguous.
        log_weights: (streaming heads, num_keys) fp32, added to scores: log N_d for the
            compensation token, else 0 (RazorAttention, equation 5).
    """

    keys: Tensor
    values: Tensor
    log_weights: Tensor


@dataclass(frozen=True)
class ResidentLayer:
    """One layer of a document, at addresses that stay; retrieval heads are its first KV heads.

    Attributes:
        keys, values: (retrieval heads, num_anchors + clustered tokens, head_dim): first the
            anchors, which every token attends to, then the clustered ones. Rows are contiguous,
            keys and values of equal strides.
        num_anchors: how many of them are anchors.
        centroids: (retrieval heads, clusters, head_dim) of level 2, contiguous.
        offsets: (retrieval heads, clusters + 1) int32: cluster j is the run offsets[j] to
            offsets[j + 1] of clustered tokens; it may be empty.
        upper: level 1, or None for one-level lookup.
        streaming: of the other KV heads; None if there are none.
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
    """The questions' own keys, in buffers of fixed size.

    Attributes:
        keys, values: (batch, kv_heads, capacity, head_dim), contiguous.
        lengths: (batch,) int32, how many are in use, the token's own included; read on the
            device alone, so that a captured step sees what is there when it is replayed.
    """

    keys: Tensor
    values: Tensor
    lengths: Tensor


@dataclass(frozen=True)
class Scoring:
    """How keys are scored and how a GQA group votes.

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
