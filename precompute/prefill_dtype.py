"""In which dtype a document's prefill multiplies matrices, its attention's among them."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from engine.model.loader import LoadedModel
from precompute.config import PrecomputeConfig

BFLOAT16_INSTRUCTIONS = ("amx_bf16", "avx512_bf16")  # of x86-64 processors


def prefill_dtype(model: LoadedModel, settings: PrecomputeConfig) -> torch.dtype:
    """Choose the dtype in which matrices are multiplied while a document is read.

    On a CPU that multiplies matrices of bfloat16 in hardware this takes half of the time or less;
    attention is quicker only with Intel's AMX. What is kept of a document is rounded to bfloat16 by
    default in any case, and a GPU computes in it throughout. Norms, residuals and the sums of
    products stay in the model's.

    Returns: `settings.prefill_dtype`; of "auto", bfloat16 if the processor has such products, the
        model computes in float32 with weights that are not quantised, and bfloat16 is stored; else
        the model's.
    """
    if settings.prefill_dtype == "bfloat16":
        return torch.bfloat16
    is_quicker = (
        settings.prefill_dtype == "auto"
        and model.device.type == "cpu"
        and model.dtype == torch.float32
        and settings.dtype == "bfloat16"
        and model.quantisation is None
        and has_bfloat16_matmul()
    )
    return torch.bfloat16 if is_quicker else model.dtype


def has_bfloat16_matmul() -> bool:
    """Return whether this processor multiplies matrices of bfloat16 in hardware."""
    found = torch.cpu.get_capabilities()
    return any(found.get(name, False) for name in BFLOAT16_INSTRUCTIONS)


@contextmanager
def matmul_in(dtype: torch.dtype, model: LoadedModel) -> Iterator[None]:
    """Let the model's layers multiply in a dtype while the block runs, on this thread alone."""
    if dtype == model.dtype:
        yield
        return
    with torch.autocast(model.device.type, dtype=dtype):
        yield
