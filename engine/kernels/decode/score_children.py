"""Hierarchical lookup: level 1 prunes, and level 2 is scored below what is left."""

import torch

from engine.kernels.decode.inputs import DecodeInputs
from engine.kernels.decode.reference_helpers import lookup_lse, raw_scores, reaches_threshold
from engine.kernels.decode.workspace import Workspace


def score_children(inputs: DecodeInputs, work: Workspace) -> None:
    """Score the level-2 centroids below the level-1 clusters that a question selects.

    A program looks at consecutive level-2 clusters and lists those whose parent some question
    selects; the other centroids are not read. A pruned cluster keeps its place in the denominator
    with its parent's score: the children of a cluster have exactly the tokens that it has.

    Args:
        inputs: what the step reads, as `decode_attention` has checked it; the layer has a level 1,
            and the first row of the thresholds is used.
        work: as `score_centroids_and_attend_dense` leaves it. Of it `centroid_scores` is written,
            -inf below what a question prunes, `centroid_lse`, and `candidates`; `read_counts[1]`
            counts up.
    Source: Squeezed Attention, section 4.3.
    """
    if inputs.query.is_cuda:
        from engine.kernels.decode.triton.score_children import score_children_triton

        score_children_triton(inputs, work)
    else:
        score_children_reference(inputs, work)


def score_children_reference(inputs: DecodeInputs, work: Workspace) -> None:
    """Compute `score_children` in torch, head by head.

    Args: as `score_children`.
    """
    s, layer, upper = work.sizes, inputs.layer, inputs.layer.upper
    assert upper is not None
    scores = raw_scores(inputs.query, layer.centroids, s, inputs.scoring)
    work.centroid_lse.fill_(-torch.inf)
    for head in range(s.retrieval):
        parent_scores = work.upper_scores[head]  # (level-1 clusters, rows)
        lse = lookup_lse(work.upper_lse, work.dense_lse, work.sizes, head)
        is_selected = reaches_threshold(parent_scores, lse, inputs.thresholds[0], s, inputs.scoring)
        # (batch, level-1 clusters)
        is_selected = is_selected & (upper.token_offsets[head].diff() > 0)
        children = upper.offsets[head].diff()
        work.read_counts[1, head] += (is_selected * children).sum(1)
        rows = torch.zeros(s.num_upper, s.rows, dtype=torch.bool, device=scores.device)
        rows.view(s.num_upper, -1, s.group_pad)[:, : s.batch] = is_selected.T[..., None]
        below = rows.repeat_interleave(children, 0)  # (level-2 clusters, rows)
        work.centroid_scores[head] = scores[head].masked_fill(~below, -torch.inf)
        parents = parent_scores.repeat_interleave(children, 0)
        log_sizes = layer.offsets[head].diff().log()[:, None]
        counted = torch.where(below, scores[head], parents) + log_sizes
        work.centroid_lse[head, 0] = counted.logsumexp(0)
