"""Buffers of a decode step, allocated once."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.kernels.decode.step_sizes import Sizes
from engine.kernels.decode.tuning import Tuning, fitting
from engine.kernels.shared.overlap import can_overlap
from engine.kernels.shared.sizes import ceil_div

PART_STEP = 16  # parts of centroids are multiples of it


@dataclass(frozen=True)
class Workspace:
    """Buffers of a decode step, at addresses that stay; the tally alone outlives it.

    Attributes:
        near_out, near_lse: (batch, kv_heads, near parts, group, head_dim) fp32 and the same
            without head_dim: states over near keys, disjoint, lse in nats, -inf without keys.
        scores: (retrieval, clusters, rows) fp32, raw scores of level-2 centroids.
        parts: (retrieval, parts, rows) fp32, parts of the log of a lookup's denominator.
        upper_scores, upper_parts: the same of level 1.
        descended: (retrieval, clusters) int32, the descent's own: what each program has to score.
        runs, askers: (retrieval, capacity) int32: pieces of the kept runs, start x 32 + length in
            clustered tokens, and bit b where question b keeps them; askers is empty for a batch
            of 1.
        counts: (retrieval, chunks) int32, pieces a chunk of clusters lists, plus 1 once known.
        totals: (retrieval,) int32, pieces listed.
        token_scores: (retrieval, group, clustered tokens) fp32, raw scores of the listed pieces'
            tokens, of the first question; without tokens where nobody asks for them.
        part_out, part_lse: (programs + retrieval, rows, head_dim) fp32 and without head_dim:
            states over runs; program p leaves that of head h at p + h.
        out: (batch, num_heads, head_dim) in the query's dtype, lse: (batch, num_heads) fp32.
        tally: (2, retrieval, batch) int64, what the questions have read so far, each as if it were
            alone: clustered tokens, and level-2 centroids of hierarchical lookup. It only counts
            up; `tally.zero_()` starts anew.
    """

    sizes: Sizes
    tuning: Tuning
    near_out: Tensor
    near_lse: Tensor
    scores: Tensor
    parts: Tensor
    upper_scores: Tensor
    upper_parts: Tensor
    descended: Tensor
    runs: Tensor
    askers: Tensor
    counts: Tensor
    totals: Tensor
    token_scores: Tensor
    part_out: Tensor
    part_lse: Tensor
    out: Tensor
    lse: Tensor
    tally: Tensor

    @property
    def around_parts(self) -> int:
        """Near parts of anchors, or in a streaming head of what it sees of the document."""
        most = max(self.sizes.num_anchors, self.sizes.num_streaming_keys)
        return ceil_div(most, self.tuning.near_keys)

    @property
    def near_parts(self) -> int:
        """All near parts: a question's own come last."""
        return self.near_lse.shape[2]

    @property
    def part_clusters(self) -> int:
        """Centroids that a program of the survey scores."""
        return part_clusters(self.sizes, self.tuning)

    @property
    def chunk(self) -> int:
        """Clusters that a program of the selection takes."""
        return max(1, self.tuning.chunk_scores // self.sizes.rows)


def part_clusters(sizes: Sizes, tuning: Tuning) -> int:
    """Centroids a program of the survey scores: of level 1 if there is one, else of level 2."""
    of_a_head = max(1, tuning.score_programs // max(1, sizes.retrieval))
    least = ceil_div(sizes.num_upper or sizes.num_clusters, of_a_head)
    return max(tuning.part_clusters, ceil_div(least, PART_STEP) * PART_STEP)


def allocate(
    sizes: Sizes,
    dtype: torch.dtype,
    device: torch.device,
    tuning: Tuning | None = None,
    *,
    noting: bool = False,
) -> Workspace:
    """Allocate a workspace for queries of `dtype`.

    At 512K keys of 8 heads, 5 % centroids and a batch of 1 it takes 6 MB; scores grow with the
    batch.

    Args:
        noting: keep scores of tokens, another 64 MB there with four query heads a KV head.
    """
    s, t = sizes, tuning or fitting(sizes, dtype.itemsize)
    t = replace(t, overlap=t.overlap and can_overlap(device))

    def floats(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.float32, device=device)

    def ints(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.int32, device=device)

    around = ceil_div(max(s.num_anchors, s.num_streaming_keys), t.near_keys)
    near = around + ceil_div(s.capacity, t.near_keys)
    scored = ceil_div(s.num_upper or s.num_clusters, part_clusters(s, t))
    parts = scored
    if s.num_upper:
        parts = ceil_div(s.num_clusters, t.descend_span)
    chunks = ceil_div(s.num_clusters, max(1, t.chunk_scores // s.rows))
    capacity = s.num_keys // t.piece + s.num_clusters  # each cluster adds at most one short piece
    return Workspace(
        sizes=s,
        tuning=t,
        near_out=floats(s.batch, s.kv_heads, near, s.group, s.head_dim),
        near_lse=floats(s.batch, s.kv_heads, near, s.group),
        scores=floats(s.retrieval, s.num_clusters, s.rows),
        parts=floats(s.retrieval, parts, s.rows),
        upper_scores=floats(s.retrieval, s.num_upper, s.rows),
        upper_parts=floats(s.retrieval, scored if s.num_upper else 0, s.rows),
        descended=ints(s.retrieval, s.num_clusters if s.num_upper else 0),
        runs=ints(s.retrieval, capacity),
        askers=ints(s.retrieval, capacity if s.batch > 1 else 0),
        counts=ints(s.retrieval, chunks),
        totals=ints(s.retrieval),
        token_scores=floats(s.retrieval, s.group, s.num_keys if noting else 0),
        part_out=floats(t.programs + s.retrieval, s.rows, s.head_dim),
        part_lse=floats(t.programs + s.retrieval, s.rows),
        out=torch.empty(s.batch, s.num_heads, s.head_dim, dtype=dtype, device=device),
        lse=floats(s.batch, s.num_heads),
        tally=torch.zeros(2, s.retrieval, s.batch, dtype=torch.int64, device=device),
    )
