"""Contract of `attend_runs`."""

from torch import Tensor

from engine.kernels.attend_runs.reference import attend_runs_reference
from engine.kernels.decoding import ResidentLayer, Scoring, Workspace


def attend_runs(query: Tensor, layer: ResidentLayer, work: Workspace, scoring: Scoring) -> None:
    """Attend to the listed pieces of clusters.

    The pieces of all heads, laid end to end, are cut into equal shares: heads that keep very
    different numbers of tokens do not wait for each other. The rows of a tile are all heads of the
    GQA group, of all questions.

    Args:
        query: (batch, num_heads, head_dim).
        work: as `select_runs` leaves it.
    Fills: of `work` part_out and part_lse, where a share holds pieces of a head, and token_scores
        of these tokens, if there is room for them.
    Source: Squeezed Attention, section 4.2; Flash-Decoding.
    """
    if query.is_cuda:
        from engine.kernels.attend_runs.kernel import attend_runs_triton

        attend_runs_triton(query, layer, work, scoring)
    else:
        attend_runs_reference(query, layer, work, scoring)
