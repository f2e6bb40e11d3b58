"""The accelerator's memory: what happens when it runs out."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from common.errors import GpuBusy
from engine.model.loader import LoadedModel

FULL = "The GPU has no memory left for this document now; try again in a moment."


@contextmanager
def memory_watched() -> Iterator[None]:
    """Give back what a failed attempt held, and say that the GPU is full.

    Raises: GpuBusy where the accelerator ran out of memory.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        traceback.clear_frames(error.__traceback__)  # their tensors would live as long as the error
        torch.cuda.empty_cache()
        raise GpuBusy(FULL) from error


def room_bytes(model: LoadedModel) -> int | None:
    """Bytes that the model's weights leave of their GPU's memory; None on a CPU."""
    if model.device.type != "cuda":
        return None
    total: int = torch.cuda.get_device_properties(model.device).total_memory
    return total - sum(weight.nbytes for weight in model.model.parameters())
