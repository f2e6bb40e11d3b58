"""`attend_tokens` in plain torch."""

import torch
from torch import Tensor

from engine.kernels.attend_keys import attend_keys
from engine.kernels.merge_states import merge_states
from engine.kernels.state import State


def attend_tokens_reference(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    tokens: Tensor,
    counts: Tensor,
    around: State,
    *,
    scale: float,
    softcap: float | None,
) -> State:
    """See `attend_tokens`."""
    parts = []
    for head, count in enumerate(counts.tolist()):
        listed = tokens[head, :count].long()
        part = attend_keys(
            query[head : head + 1],
            keys[head, listed][None],
            values[head, listed][None],
            scale=scale,
            softcap=softcap,
        )
        parts.append(part)
    chosen = State(torch.cat([p.out for p in parts]), torch.cat([p.lse for p in parts]))
    return merge_states(around, chosen)
