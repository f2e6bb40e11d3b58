"""Buffers of a decode step, allocated once."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.kernels.decode.inputs import StepSizes
from engine.kernels.decode.tuning import Tuning, default_tuning
from engine.kernels.shared.overlap import can_overlap
from engine.kernels.shared.sizes import ceil_div

SPLIT_STEP = 16  # the centroids of a split are a multiple of it


@dataclass(frozen=True)
class Workspace:
    """Buffers of a decode step, at fixed addresses.

    Every step overwrites them, except `read_counts`, to which it adds. In buffers with rows, row
    b x group_pad + g is head g of question b (`StepSizes.rows`).

    Attributes:
        dense_out, dense_lse: (batch, kv_heads, dense splits, group, head_dim) fp32 and the same
            without head_dim: states over disjoint sets of dense keys, lse in nats, -inf for no
            keys. Where query heads have sink logits, these are the lse of the last split, whose
            outputs are zeros.
        centroid_scores: (retrieval, clusters, rows) fp32, raw scores of level-2 centroids.
        centroid_lse: (retrieval, splits, rows) fp32: the log-sum-exp over disjoint sets of
            clusters; together they are the clusters' part of a lookup's denominator.
        upper_scores, upper_lse: the same of level 1.
        candidates: (retrieval, clusters) int32, used within `score_children`: what each of its
            programs has to score.
        segments: (retrieval, capacity) int32: the selected runs, cut into segments, as start x 32 +
            length in clustered tokens.
        question_masks: (retrieval, capacity) int32: bit b of a segment's mask says whether question
            b selected it; empty for a batch of 1.
        segment_counts: (retrieval, chunks) int32: segments that each chunk of clusters lists, plus
            1 once that is known.
        num_segments: (retrieval,) int32: segments listed.
        token_scores: (retrieval, group, clustered tokens) fp32: raw scores of the listed segments'
            tokens, of the first question; with no tokens at all where they are not wanted.
        split_out, split_lse: (programs + retrieval, rows, head_dim) fp32 and the same without
            head_dim: states over segments; program p leaves its state of head h at p + h.
        out: (batch, num_heads, head_dim) in the query's dtype.
        lse: (batch, num_heads) fp32, in nats.
        read_counts: (2, retrieval, batch) int64: what the questions have read so far, each as if it
            were alone: clustered tokens, and level-2 centroids of hierarchical lookup. A step adds
            to it; `read_counts.zero_()` starts anew.
    """

    sizes: StepSizes
    tuning: Tuning
    dense_out: Tensor
    dense_lse: Tensor
    centroid_scores: Tensor
    centroid_lse: Tensor
    upper_scores: Tensor
    upper_lse: Tensor
    candidates: Tensor
    segments: Tensor
    question_masks: Tensor
    segment_counts: Tensor
    num_segments: Tensor
    token_scores: Tensor
    split_out: Tensor
    split_lse: Tensor
    out: Tensor
    lse: Tensor
    read_counts: Tensor

    @property
    def document_splits(self) -> int:
        """Splits of a head's dense keys in the document: anchors, or a streaming head's keys."""
        most = max(self.sizes.num_anchors, self.sizes.num_streaming_keys)
        return ceil_div(most, self.tuning.dense_split_keys)

    @property
    def dense_splits(self) -> int:
        """All splits of a head's dense keys: the document's, a question's own, the sink logits."""
        return self.dense_lse.shape[2]

    @property
    def split_clusters(self) -> int:
        """Centroids that a program scores."""
        return split_clusters(self.sizes, self.tuning)

    @property
    def chunk_clusters(self) -> int:
        """Clusters that a program of `select_runs` looks at."""
        return chunk_clusters(self.sizes, self.tuning)


def split_clusters(sizes: StepSizes, tuning: Tuning) -> int:
    """Return the number of centroids that a program scores.

    They are of level 1 where there is one, else of level 2.

    Args:
        sizes: of the step.
        tuning: of the step.
    """
    programs = max(1, tuning.max_score_programs // max(1, sizes.retrieval))  # of a head
    share = ceil_div(sizes.num_upper or sizes.num_clusters, programs)
    return max(tuning.min_split_clusters, ceil_div(share, SPLIT_STEP) * SPLIT_STEP)


def chunk_clusters(sizes: StepSizes, tuning: Tuning) -> int:
    """Return the number of clusters that a program of `select_runs` looks at.

    Args:
        sizes: of the step.
        tuning: of the step.
    """
    return max(1, tuning.select_scores // sizes.rows)


def allocate(
    sizes: StepSizes,
    dtype: torch.dtype,
    device: torch.device,
    tuning: Tuning | None = None,
    *,
    keep_token_scores: bool = False,
) -> Workspace:
    """Allocate the buffers of a decode step.

    At 512K keys of 8 heads, 5 % centroids and a batch of 1 they take 6 MB; scores grow with the
    batch.

    Args:
        sizes: of the step.
        dtype: of its queries.
        device: of its tensors.
        tuning: None for the default of these sizes.
        keep_token_scores: leave the scores of attended tokens for `accumulate_attention_mass`; in
            the example above that takes another 64 MB with four query heads per KV head.
    """
    s, t = sizes, tuning or default_tuning(sizes, dtype.itemsize)
    t = replace(t, overlap=t.overlap and can_overlap(device))

    def floats(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.float32, device=device)

    def ints(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.int32, device=device)

    of_document = ceil_div(max(s.num_anchors, s.num_streaming_keys), t.dense_split_keys)
    dense_splits = of_document + ceil_div(s.capacity, t.dense_split_keys) + s.has_sinks
    scored_splits = ceil_div(s.num_upper or s.num_clusters, split_clusters(s, t))
    child_splits = ceil_div(s.num_clusters, t.child_span)
    chunks = ceil_div(s.num_clusters, chunk_clusters(s, t))
    # Each cluster has at most one segment that is shorter than the others.
    capacity = s.num_keys // t.segment_size + s.num_clusters
    return Workspace(
        sizes=s,
        tuning=t,
        dense_out=floats(s.batch, s.kv_heads, dense_splits, s.group, s.head_dim),
        dense_lse=floats(s.batch, s.kv_heads, dense_splits, s.group),
        centroid_scores=floats(s.retrieval, s.num_clusters, s.rows),
        centroid_lse=floats(s.retrieval, child_splits if s.num_upper else scored_splits, s.rows),
        upper_scores=floats(s.retrieval, s.num_upper, s.rows),
        upper_lse=floats(s.retrieval, scored_splits if s.num_upper else 0, s.rows),
        candidates=ints(s.retrieval, s.num_clusters if s.num_upper else 0),
        segments=ints(s.retrieval, capacity),
        question_masks=ints(s.retrieval, capacity if s.batch > 1 else 0),
        segment_counts=ints(s.retrieval, chunks),
        num_segments=ints(s.retrieval),
        token_scores=floats(s.retrieval, s.group, s.num_keys if keep_token_scores else 0),
        split_out=floats(t.attend_programs + s.retrieval, s.rows, s.head_dim),
        split_lse=floats(t.attend_programs + s.retrieval, s.rows),
        out=torch.empty(s.batch, s.num_heads, s.head_dim, dtype=dtype, device=device),
        lse=floats(s.batch, s.num_heads),
        read_counts=torch.zeros(2, s.retrieval, s.batch, dtype=torch.int64, device=device),
    )
