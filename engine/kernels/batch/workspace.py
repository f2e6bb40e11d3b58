"""Buffers of a step of many rows, allocated once."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.kernels.batch.sizes import MAX_DENSE_SPLITS, BatchSizes
from engine.kernels.batch.tuning import BatchTuning, default_batch_tuning
from engine.kernels.shared.overlap import can_overlap
from engine.kernels.shared.sizes import ceil_div


@dataclass(frozen=True)
class BatchWorkspace:
    """Buffers at fixed addresses, which all layers of a step share.

    Every layer overwrites them, except `read_bytes`, to which it adds. Where groups, splits and
    chunks lie in them is worked out from the step's tables; heads are counted as of the layer that
    has most retrieval heads. In buffers with tile rows, row b x group_pad + g is head g of the
    group's row b.

    Attributes:
        dense_out, dense_lse: (rows, kv_heads, splits, group, head_dim) fp32 and the same without
            head_dim: states over disjoint sets of a row's dense keys, lse in nats. Where query
            heads have sink logits, these are the lse behind the last split, whose outputs are
            zeros.
        scores: raw scores of level-2 centroids by cluster and tile row, fp32.
        cluster_lse: log-sum-exp over the clusters of a split by split and tile row, fp32.
        segments: int32, selected runs, cut into segments, as start x 32 + length.
        segment_masks: int32, which rows of the group selected each segment.
        token_masks: int32, which rows selected each clustered token, in the order of the tokens;
            empty for small groups, which do not read whole heads.
        segment_counts: int32, segments that each chunk of clusters lists, plus 1 once known.
        next_item: (1,) int32: the chunk of a head that the next program of `select_kernel` takes,
            where programs take several.
        num_segments: (groups x retrieval heads,) int32: segments listed; -n where all clustered
            tokens are read, which fill n segments.
        lookup_lse: (rows, num_heads) fp32, in nats: what the lookup estimates the log-sum-exp of a
            retrieval head's scores to be, without anything clustered for rows that read everything.
        listed_scores: fp16, scores relative to `lookup_lse` to base 2, by place in the list of a
            group's head, or in the head where all of it is read, and tile row; -inf where a row
            does not see a token. Nothing of heads whose log weight is -inf.
        anchor_scores: fp32, raw scores of anchors by row, query head of retrieval heads and anchor.
        split_out, split_lse: (programs + groups x retrieval heads, tile rows, head_dim) fp32 and
            the same without head_dim: program p leaves its state of pair h at p + h.
        out: (rows, num_heads, head_dim) in the query's dtype.
        lse: (rows, num_heads) fp32, in nats.
        read_bytes: (rows,) int64: bytes of the clustered keys and values that each row selected,
            as if it were alone. Layers add to it; a step begins with zeros.
    """

    sizes: BatchSizes
    tuning: BatchTuning
    dense_out: Tensor
    dense_lse: Tensor
    scores: Tensor
    cluster_lse: Tensor
    segments: Tensor
    segment_masks: Tensor
    token_masks: Tensor
    segment_counts: Tensor
    next_item: Tensor
    num_segments: Tensor
    lookup_lse: Tensor
    listed_scores: Tensor
    anchor_scores: Tensor
    split_out: Tensor
    split_lse: Tensor
    out: Tensor
    lse: Tensor
    read_bytes: Tensor

    @property
    def chunk_clusters(self) -> int:
        """Clusters that a program of `select_kernel` looks at at a time."""
        return max(1, self.tuning.select_scores // self.sizes.tile_rows)


class Buffers:
    """Memory that workspaces share which are never in use at the same time.

    Workspaces should be allocated from the largest to the smallest: one that asks for more than
    there is gets memory of its own.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[str, torch.dtype], Tensor] = {}

    def take(
        self, name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        """Return a tensor of the shape whose numbers may be anything."""
        held, size = self._held.get((name, dtype)), math.prod(shape)
        if held is None or held.numel() < size:
            held = self._held[name, dtype] = torch.empty(size, dtype=dtype, device=device)
        return held[:size].view(shape)


def allocate_batch(
    sizes: BatchSizes,
    dtype: torch.dtype,
    device: torch.device,
    tuning: BatchTuning | None = None,
    *,
    has_sinks: bool = False,
    buffers: Buffers | None = None,
) -> BatchWorkspace:
    """Allocate the buffers of a step.

    Args:
        sizes: of the step.
        dtype: of its queries.
        device: of its tensors.
        tuning: None for the default of these sizes.
        has_sinks: whether query heads have sink logits.
        buffers: what the workspace shares with others; None for its own memory.
    """
    buffers = buffers or Buffers()
    s, t = sizes, tuning or default_batch_tuning(sizes, dtype.itemsize)
    t = replace(t, overlap=t.overlap and can_overlap(device))

    def floats(name: str, *shape: int) -> Tensor:
        return buffers.take(name, shape, torch.float32, device)

    def ints(name: str, *shape: int) -> Tensor:
        return buffers.take(name, shape, torch.int32, device)

    heads, rows = s.kv_heads, s.tile_rows
    dense = (s.rows, heads, MAX_DENSE_SPLITS + has_sinks, s.group)
    # Each group may have one split and one chunk that is not full.
    splits = ceil_div(s.clusters, t.split_clusters) + s.rows
    chunks = ceil_div(s.clusters, max(1, t.select_scores // rows)) + s.rows
    states = t.attend_programs + s.rows * heads
    return BatchWorkspace(
        sizes=s,
        tuning=t,
        dense_out=floats("dense_out", *dense, s.head_dim),
        dense_lse=floats("dense_lse", *dense),
        scores=floats("scores", s.clusters * heads * rows),
        cluster_lse=floats("cluster_lse", splits * heads * rows),
        segments=ints("segments", s.segments(t.segment_size) * heads),
        segment_masks=ints(
            "segment_masks", s.segments(t.segment_size) * heads if s.group_rows > 1 else 0
        ),
        token_masks=ints("token_masks", s.list_tokens * heads if s.reads_whole else 0),
        segment_counts=ints("segment_counts", chunks * heads),
        next_item=ints("next_item", 1),
        num_segments=ints("num_segments", s.rows * heads),
        lookup_lse=floats("lookup_lse", s.rows, s.num_heads),
        listed_scores=buffers.take(
            "listed_scores", (s.score_slots * heads, rows), torch.float16, device
        ),
        anchor_scores=floats("anchor_scores", s.anchor_tokens * s.num_heads),
        split_out=floats("split_out", states, rows, s.head_dim),
        split_lse=floats("split_lse", states, rows),
        out=buffers.take("out", (s.rows, s.num_heads, s.head_dim), dtype, device),
        lse=floats("lse", s.rows, s.num_heads),
        read_bytes=torch.zeros(s.rows, dtype=torch.int64, device=device),
    )
