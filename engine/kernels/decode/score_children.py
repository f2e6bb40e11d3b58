"""Hierarchical lookup: level 1 prunes, and level 2 is scored below what is left."""

import torch
from torch import Tensor

from engine.kernels.decode.inputs import ResidentLayer, Scoring
from engine.kernels.decode.score_centroids import score_rows
from engine.kernels.decode.select_runs import kept_by, row_lse
from engine.kernels.decode.workspace import Workspace


def descend(
    query: Tensor, layer: ResidentLayer, thresholds: Tensor, work: Workspace, scoring: Scoring
) -> None:
    """Score the level-2 centroids below the level-1 clusters that a question keeps.

    A program takes a stretch of level 2 and lists those whose parent some question keeps; what no
    question keeps is not read. It keeps its place in the denominator with its parent's score: the
    tokens of a cluster's children are the cluster's own.

    Args:
        query: (batch, num_heads, head_dim); `layer` has a level 1.
        thresholds: (2, batch) fp32; of level 1 is the first row.
        work: as `survey` leaves it.
    Fills: of `work` scores, -inf below what a question prunes, parts, and descended, its own list;
        tally[1] counts up.
    Source: Squeezed Attention, section 4.3.
    """
    if query.is_cuda:
        from engine.kernels.decode.triton.score_children import descend_triton

        descend_triton(query, layer, thresholds, work, scoring)
    else:
        descend_reference(query, layer, thresholds, work, scoring)


def descend_reference(
    query: Tensor, layer: ResidentLayer, thresholds: Tensor, work: Workspace, scoring: Scoring
) -> None:
    """See `descend`."""
    s, upper = work.sizes, layer.upper
    assert upper is not None
    raw = score_rows(query, layer.centroids, s, scoring)
    work.parts.fill_(-torch.inf)
    for head in range(s.retrieval):
        found = work.upper_scores[head]  # (level-1 clusters, rows)
        lse = row_lse(work.upper_parts, work, head)
        kept = kept_by(found, lse, thresholds[0], s, scoring)  # (batch, level-1 clusters)
        kept = kept & (upper.token_offsets[head].diff() > 0)
        children = upper.offsets[head].diff()
        work.tally[1, head] += (kept * children).sum(1)
        rows = torch.zeros(s.num_upper, s.rows, dtype=torch.bool, device=query.device)
        rows.view(s.num_upper, -1, s.group_pad)[:, : s.batch] = kept.T[..., None]
        below = rows.repeat_interleave(children, 0)  # (level-2 clusters, rows)
        work.scores[head] = raw[head].masked_fill(~below, -torch.inf)
        counted = torch.where(below, raw[head], found.repeat_interleave(children, 0))
        sizes = layer.offsets[head].diff().log()[:, None]
        work.parts[head, 0] = (counted + sizes).logsumexp(0)
