"""Running Triton kernels in tests: compiled on a GPU, interpreted without one."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# The interpreter's bfloat16 products are wrong, so it gets the other two.
DTYPES = (
    [torch.float16, torch.bfloat16] if torch.cuda.is_available() else [torch.float32, torch.float16]
)
TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
GUARD = 64  # elements on either side of a buffer
CANARY = {torch.float32: 12345.0, torch.int32: 123456789, torch.int64: 123456789}


@contextmanager
def guarded_buffers(monkeypatch: Any) -> Iterator[None]:
    """Poison every tensor that `torch.empty` makes, and check that nothing wrote beside it."""
    made: list[tuple[Tensor, Tensor]] = []
    plain = torch.empty

    def poisoned(*shape: Any, **options: Any) -> Tensor:
        whole = plain(*shape, **options)
        size, dtype = whole.numel(), whole.dtype
        canary = CANARY.get(dtype, 7.0)
        held = torch.full((size + 2 * GUARD,), canary, dtype=dtype, device=whole.device)
        inner = held[GUARD : GUARD + size].view(whole.shape)
        inner.fill_(float("nan") if dtype.is_floating_point else -77)
        made.append((held, inner))
        return inner

    with monkeypatch.context() as patch:
        patch.setattr(torch, "empty", poisoned)
        yield
    for held, inner in made:
        canary = CANARY.get(held.dtype, 7.0)
        assert (held[:GUARD] == canary).all()
        assert (held[GUARD + inner.numel() :] == canary).all()


def beside(tensor: Tensor) -> Tensor:
    """The tensor inside a larger one of nans: what is read beside it poisons the result."""
    flat = tensor.reshape(-1)
    value = float("nan") if tensor.dtype.is_floating_point else 123456789
    held = torch.full((flat.numel() + 2 * GUARD,), value, dtype=tensor.dtype, device=tensor.device)
    held[GUARD : GUARD + flat.numel()] = flat
    return held[GUARD : GUARD + flat.numel()].view(tensor.shape)
