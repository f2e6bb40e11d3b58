"""Partial attention: what attending to some of the keys leaves behind."""

from typing import NamedTuple

import torch
from torch import Tensor


class State(NamedTuple):
    """Attention over a set of keys, mergeable with that over a disjoint set.

    Attributes:
        out: outputs (heads, rows, head_dim) in the query's dtype; zeros where no key was seen.
        lse: log-sum-exp of the scores in nats (heads, rows), fp32; -inf where no key was seen.
    """

    out: Tensor
    lse: Tensor


def empty_state(query: Tensor) -> State:
    """The state of having seen no key, for `query` (heads, rows, head_dim)."""
    lse = torch.full(query.shape[:-1], -torch.inf, dtype=torch.float32, device=query.device)
    return State(torch.zeros_like(query), lse)
