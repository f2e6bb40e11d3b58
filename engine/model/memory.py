"""The GPU's memory: how much there is for documents, and what happens when it runs out."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from common.errors import GpuBusy
from engine.model.quantisation import held_tensors

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


def document_room_bytes(model: nn.Module) -> int | None:
    """Return the bytes that a model's weights leave of their GPU's memory; None on a CPU."""
    weights = tuple(model.parameters())
    if not weights[0].is_cuda:
        return None
    total_bytes: int = torch.cuda.get_device_properties(weights[0].device).total_memory
    weight_bytes: int = sum(one.nbytes for weight in weights for one in held_tensors(weight))
    return total_bytes - weight_bytes
