"""Contract of `select_runs`."""

from torch import Tensor

from engine.kernels.decoding import ResidentLayer, Scoring, Workspace
from engine.kernels.select_runs.reference import select_runs_reference


def select_runs(
    layer: ResidentLayer, thresholds: Tensor, work: Workspace, scoring: Scoring
) -> None:
    """List the clusters whose vote reaches a question's threshold, cut into pieces.

    A cluster is a contiguous run of tokens; pieces of at most `tuning.piece` of them are listed in
    ascending order, the same in every run. Questions share the list, with a bit each.

    Args:
        thresholds: (2, batch) fp32 in nats; of level 2 is the second row.
        work: as `survey`, or `descend` after it, leaves it.
    Fills: of `work` runs, askers and totals; tally[0] counts up. What is behind the totals means
        nothing.
    Source: Squeezed Attention, equation 3 and section 4.1.
    """
    if work.scores.is_cuda:
        from engine.kernels.select_runs.kernel import select_runs_triton

        select_runs_triton(layer, thresholds, work, scoring)
    else:
        select_runs_reference(layer, thresholds, work, scoring)
