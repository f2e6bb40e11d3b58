"""Contract of `descend`."""

from torch import Tensor

from engine.kernels.decoding import ResidentLayer, Scoring, Workspace
from engine.kernels.descend.reference import descend_reference


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
        from engine.kernels.descend.kernel import descend_triton

        descend_triton(query, layer, thresholds, work, scoring)
    else:
        descend_reference(query, layer, thresholds, work, scoring)
