"""What tests of Triton kernels share: they run compiled on a GPU, interpreted without one."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

COMPILED = torch.cuda.is_available()  # else interpreted, which takes long: fewer runs then
DEVICE = "cuda" if COMPILED else "cpu"
# The interpreter's bfloat16 products are wrong, so it gets the other two.
DTYPES = [torch.float16, torch.bfloat16] if COMPILED else [torch.float32, torch.float16]
# Of outputs, relative and absolute.
TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
GUARD = 64  # elements on either side of a buffer
CANARY = {torch.float32: 12345.0, torch.int32: 123456789, torch.int64: 123456789}


def guarded(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """A copy between guards of known numbers, and the whole that `assert_guards` checks."""
    size, canary = tensor.numel(), CANARY.get(tensor.dtype, 7.0)
    whole = torch.full((size + 2 * GUARD,), canary, dtype=tensor.dtype, device=tensor.device)
    inner = whole[GUARD : GUARD + size].view(tensor.shape)
    return inner.copy_(tensor), whole


def assert_guards(whole: Tensor) -> None:
    """Nothing was written outside of what lies between the guards."""
    canary = CANARY.get(whole.dtype, 7.0)
    assert (whole[:GUARD] == canary).all()
    assert (whole[-GUARD:] == canary).all()


@contextmanager
def guarded_buffers(monkeypatch: Any) -> Iterator[None]:
    """Fill every tensor that is made empty with nans, and check that nothing wrote around any."""
    wholes: list[Tensor] = []
    plain, plain_like, plain_zeros = torch.empty, torch.empty_like, torch.zeros

    def between(tensor: Tensor) -> Tensor:
        inner, whole = guarded(tensor)
        wholes.append(whole)
        return inner

    def poisoned(tensor: Tensor) -> Tensor:
        return between(tensor.fill_(float("nan") if tensor.dtype.is_floating_point else -77))

    with monkeypatch.context() as patch:
        patch.setattr(torch, "empty", lambda *a, **b: poisoned(plain(*a, **b)))
        patch.setattr(torch, "empty_like", lambda *a, **b: poisoned(plain_like(*a, **b)))
        patch.setattr(torch, "zeros", lambda *a, **b: between(plain_zeros(*a, **b)))
        yield
    for whole in wholes:
        assert_guards(whole)


def surrounded(tensor: Tensor) -> Tensor:
    """The tensor inside a larger one of nans: what is read around it poisons the result."""
    flat = tensor.reshape(-1)
    value = float("nan") if tensor.dtype.is_floating_point else 123456789
    whole = torch.full((flat.numel() + 2 * GUARD,), value, dtype=tensor.dtype, device=tensor.device)
    whole[GUARD : GUARD + flat.numel()] = flat
    return whole[GUARD : GUARD + flat.numel()].view(tensor.shape)
