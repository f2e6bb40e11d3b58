"""What happens when the GPU's memory runs out."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from common.errors import GpuBusy

FULL = "The GPU has no memory left for this document now; try again in a moment."


@contextmanager
def out_of_memory_as_busy() -> Iterator[None]:
    """Turn running out of GPU memory into `GpuBusy`, and give back what the failed attempt held.

    Raises: GpuBusy where the accelerator ran out of memory.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        traceback.clear_frames(error.__traceback__)  # their tensors would live as long as the error
        torch.cuda.empty_cache()
        raise GpuBusy(FULL) from error
