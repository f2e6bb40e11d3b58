"""Contract of `merge_splits`."""

from engine.kernels.decoding import Workspace
from engine.kernels.merge_splits.reference import merge_splits_reference


def merge_splits(work: Workspace) -> None:
    """Join the states of near keys and of runs, in an order that is always the same.

    Args:
        work: as `survey`, and where there are clusters `attend_runs`, right before, leaves it.
    Fills: of `work` out and lse; zeros and -inf where no key was seen.
    Source: online softmax, https://arxiv.org/abs/1805.02867
    """
    if work.out.is_cuda:
        from engine.kernels.merge_splits.kernel import merge_splits_triton

        merge_splits_triton(work)
    else:
        merge_splits_reference(work)
