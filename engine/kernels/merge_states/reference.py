"""`merge_states` in plain torch."""

import torch

from engine.kernels.state import State


def merge_states_reference(a: State, b: State) -> State:
    """See `merge_states`."""
    lse = torch.logaddexp(a.lse, b.lse)  # (heads, rows)
    # Where neither part saw a key -inf - -inf is nan: such a row has no share of anything.
    seen = lse.masked_fill(torch.isneginf(lse), 0.0)
    share_a, share_b = ((part.lse - seen).exp()[..., None] for part in (a, b))
    out = share_a * a.out.float() + share_b * b.out.float()
    return State(out.to(a.out.dtype), lse)
