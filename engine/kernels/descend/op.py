"""Contract of `descend`."""

from torch import Tensor

from engine.kernels.decoding import ResidentLayer, Scoring, Workspace
from engine.kernels.descend.reference import descend_reference


def descend(
    query: Tensor, layer: ResidentLayer, thresholds: Tensor, work: Workspace, scoring: Scoring
) -> None:
    """Score the level-2 centroids below the level-1 clusters that a question keeps.

    The children of a level-1 cluster are a contiguous run: those that some question keeps are found
    by adding up lengths, and what no question keeps is not read. Pruned clusters keep their place
    in the denominator through their level-1 centroids.

    Args:
        query: (batch, num_heads, head_dim); `layer` has a level 1.
        thresholds: (2, batch) fp32; of level 1 is the first row.
        work: as `survey` leaves it.
    Fills: of `work` scores, -inf below what a question prunes, and parts; tally[1] counts up.
    Source: Squeezed Attention, section 4.3.
    """
    if query.is_cuda:
        from engine.kernels.descend.kernel import descend_triton

        descend_triton(query, layer, thresholds, work, scoring)
    else:
        descend_reference(query, layer, thresholds, work, scoring)
