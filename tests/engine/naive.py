"""Attention and lookup as their formulas stand in the papers: float64, one number at a time."""

import torch
from torch import Tensor

# Per dtype of the inputs; results are compared with float64 arithmetic on the same inputs.
TOLERANCE = {
    torch.float32: {"rtol": 1e-5, "atol": 1e-5},
    torch.float16: {"rtol": 2e-3, "atol": 2e-3},
}


def normal(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    """Standard normal numbers of a seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def scores(query: Tensor, keys: Tensor, scale: float, softcap: float | None = None) -> Tensor:
    """(heads, rows, keys) in float64."""
    raw = torch.einsum("hrd,hkd->hrk", query.double(), keys.double()) * scale
    return raw if softcap is None else softcap * torch.tanh(raw / softcap)


def attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    scale: float,
    softcap: float | None = None,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Outputs and log-sum-exp in float64, by definition zeros and -inf where no key is seen."""
    terms = scores(query, keys, scale, softcap).exp()
    if mask is not None:
        terms = terms * mask
    mass = terms.sum(dim=-1, keepdim=True)
    out = torch.einsum("hrk,hkd->hrd", terms / mass.clamp(min=1e-300), values.double())
    return out, mass[..., 0].log()
