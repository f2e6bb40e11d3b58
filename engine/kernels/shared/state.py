"""Partial attention: the result of attending to some of the keys."""

from typing import NamedTuple

import torch
from torch import Tensor


class State(NamedTuple):
    """Attention over a set of keys, which can be merged with attention over a disjoint set.

    Attributes:
        out: outputs (heads, rows, head_dim) in the query's dtype; zeros in a row that saw no key.
        lse: log-sum-exp of the scores in nats (heads, rows), fp32; -inf in a row that saw no key.
    """

    out: Tensor
    lse: Tensor


def empty_state(query: Tensor) -> State:
    """Return the state of rows that have seen no key.

    Args:
        query: (heads, rows, head_dim); only its shape, dtype and device are used.
    Returns: zeros (heads, rows, head_dim) in the query's dtype, and -inf (heads, rows) in fp32.
    """
    lse = torch.full(query.shape[:-1], -torch.inf, dtype=torch.float32, device=query.device)
    return State(torch.zeros_like(query), lse)
