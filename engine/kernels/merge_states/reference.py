"""`merge_states` in plain torch."""

import torch

from engine.kernels.state import State


def merge_states_reference(a: State, b: State) -> State:
    """See `merge_states`."""
    lse = torch.logaddexp(a.lse, b.lse)  # (heads, rows)
    # Where neither part saw a key -inf - -inf is nan: such a row has no share of anything.
    share_a = (a.lse - lse).exp().nan_to_num(0.0)[..., None]
    share_b = (b.lse - lse).exp().nan_to_num(0.0)[..., None]
    out = share_a * a.out.float() + share_b * b.out.float()
    return State(out.to(a.out.dtype), lse)
