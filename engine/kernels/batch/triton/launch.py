"""The launches of `attend_rows`, in their order."""

from engine.kernels.batch.inputs import BatchInputs
from engine.kernels.batch.triton.attend import attend_triton
from engine.kernels.batch.triton.combine import combine_triton
from engine.kernels.batch.triton.score import score_triton
from engine.kernels.batch.triton.select import select_triton
from engine.kernels.batch.workspace import BatchWorkspace


def attend_rows_triton(inputs: BatchInputs, work: BatchWorkspace) -> None:
    """Launch the kernels of `attend_rows`.

    Args: as `attend_rows`; nothing is checked.
    """
    score_triton(inputs, work)
    if inputs.retrieval > 0 and inputs.window is None:
        select_triton(inputs, work)
        attend_triton(inputs, work)
    combine_triton(inputs, work)
