"""`attend_near` in plain torch."""

import torch
from torch import Tensor

from engine.kernels.attend_keys import attend_keys
from engine.kernels.attend_near.near import NearKeys
from engine.kernels.merge_states import merge_states
from engine.kernels.state import State


def attend_near_reference(
    query: Tensor, near: NearKeys, *, tokens: int, scale: float, softcap: float | None
) -> State:
    """See `attend_near`."""
    num_own, split = near.own_keys.shape[1], len(near.anchor_keys)
    at = torch.arange(num_own, device=query.device)
    causal = (at[num_own - tokens :, None] >= at).repeat(query.shape[1] // tokens, 1)
    own = attend_keys(
        query, near.own_keys, near.own_values, scale=scale, softcap=softcap, mask=causal
    )
    around = [
        attend_keys(
            query[:split], near.anchor_keys, near.anchor_values, scale=scale, softcap=softcap
        )
    ]
    if near.kept_keys is not None and near.kept_values is not None:
        last = torch.zeros(near.kept_keys.shape[1], device=query.device)
        last[-1] = near.log_last
        around.append(
            attend_keys(
                query[split:],
                near.kept_keys,
                near.kept_values,
                scale=scale,
                softcap=softcap,
                bias=last,
            )
        )
    return merge_states(
        own, State(torch.cat([part.out for part in around]), torch.cat([p.lse for p in around]))
    )
