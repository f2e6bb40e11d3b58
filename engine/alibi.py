"""Attention with linear biases (ALiBi): no RoPE, but scores that fall with a key's distance."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Alibi:
    """What a layer's heads add to their scores, and what bounds how far they can see.

    Attributes:
        slopes: (heads,) fp32, positive: a score falls by this many nats a token of distance.
        spreads: (heads,) fp64: no two keys' scores for one token differ by more than this many
            nats, biases left aside, see `engine.scope.score_spread`.
    """

    slopes: Tensor
    spreads: Tensor

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        """What is added to scores, (heads, queries, keys) fp32; -inf for keys that come later.

        Args:
            queries, keys: positions, (queries,) and (keys,) int64.
        Source: ALiBi, https://arxiv.org/abs/2108.12409, section 3.
        """
        distance = queries[:, None] - keys[None, :]
        falling = -self.slopes[:, None, None] * distance
        return falling.masked_fill(distance < 0, -torch.inf)
