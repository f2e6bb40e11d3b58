"""Sink logits (gpt-oss): a head's learned score that takes part in the softmax, without a value.

They are one more term of the log-sum-exp. The first tokens of a text, which this project calls
sinks, have nothing to do with them.
"""

import torch
from torch import Tensor

from engine.kernels.shared.state import State


def with_sink_logits(state: State, logits: Tensor | None) -> State:
    """Let a sink take its part of attention.

    Args:
        state: out (kv_heads or heads, rows, head_dim), lse (the same without head_dim).
        logits: (heads,), in the order of the state's heads, the rows of a KV head being its group's
            tokens one query head after the other; None for a model without.
    Returns: the state, whose log-sum-exp holds the sinks' terms.
    Source: gpt-oss, https://arxiv.org/abs/2508.10925, section 2.2.
    """
    if logits is None:
        return state
    heads, rows = state.lse.shape
    group = len(logits) // heads
    own = logits.float().view(heads, group, 1).expand(-1, -1, rows // group).reshape(heads, rows)
    lse = torch.logaddexp(state.lse, own)
    share = (state.lse - lse).exp()[..., None]
    return State((state.out.float() * share).to(state.out.dtype), lse)
