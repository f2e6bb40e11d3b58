"""Which tokens lie in which of several parts of a text, to add up what each part's tokens have."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class TokenParts:
    """Parts of a text, and the tokens in each, which mostly follow each other.

    Attributes:
        num_parts: of the text; some may have no token.
        starts: where runs of tokens of the same part begin (runs,) int64.
        parts: the part of each run (runs,) int64.
    """

    num_parts: int
    starts: npt.NDArray[np.int64]
    parts: npt.NDArray[np.int64]

    @classmethod
    def of(cls, part_of_token: Tensor, num_parts: int) -> Self:
        """Find the runs of tokens.

        Args:
            part_of_token: the part that each token is in (tokens,) int64 on the CPU.
        """
        parts = part_of_token.numpy()
        starts = np.flatnonzero(np.diff(parts, prepend=-1))
        return cls(num_parts, starts, parts[starts])

    def sums(self, values: Tensor) -> Tensor:
        """Add up the values (tokens,) fp32 on the CPU of each part's tokens: (num_parts,) fp32."""
        if not len(self.starts):
            return torch.zeros(self.num_parts)
        of_runs = np.add.reduceat(values.numpy(), self.starts)
        found = np.bincount(self.parts, weights=of_runs, minlength=self.num_parts)
        return torch.from_numpy(found.astype(np.float32))
