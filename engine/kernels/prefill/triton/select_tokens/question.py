"""What every launch of a lookup reads."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Question:
    """What every launch of a lookup reads; see `choose_tokens`."""

    query: Tensor
    centroids: Tensor
    offsets: Tensor
    threshold: Tensor
    extra_lse: Tensor
    near: Tensor
    group: int
    how: str
    scale: float
    softcap: float | None

    def fixed(self) -> dict[str, float | int]:
        """What the kernels are compiled for."""
        return {"SCALE": self.scale, "SOFTCAP": self.softcap or 0.0, "D": self.query.shape[2]}

    def empty(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """A tensor on the question's device."""
        return torch.empty(shape, dtype=dtype, device=self.query.device)
