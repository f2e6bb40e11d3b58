"""Attention with linear biases (ALiBi): scores fall with a key's distance; there is no RoPE."""

import torch
from torch import Tensor

from engine.kernels.shared.attend_keys import attend_keys
from engine.kernels.shared.state import State

MAX_BIASES = 1 << 25  # fp32 elements held at a time: 128 MiB


def linear_bias(slopes: Tensor, asked: Tensor, held: Tensor, scope: int | None = None) -> Tensor:
    """What is added to scores, (heads, tokens, keys) fp32; -inf where a key is not seen.

    Args:
        slopes: (heads,) fp32.
        asked, held: positions of tokens and of keys, (tokens,) and (keys,) int64.
        scope: a token sees itself and the `scope - 1` tokens before it; None for all before it.
    Source: ALiBi, https://arxiv.org/abs/2108.12409, section 3.
    """
    distance = asked[:, None] - held[None, :]
    unseen = distance < 0 if scope is None else (distance < 0) | (distance >= scope)
    return (-slopes[:, None, None] * distance).masked_fill(unseen, -torch.inf)


def attend_biased(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    scale: float,
    slopes: Tensor,
    asked: Tensor,
    held: Tensor,
    scope: int | None = None,
) -> State:
    """Attend causally with linear biases.

    Args:
        query: (heads, tokens, head_dim); keys, values: (heads, num_keys, head_dim).
        scale: factor on the dot product.
        slopes, asked, held, scope: as in `linear_bias`.
    Returns: the partial state; zeros and -inf in rows that see no key.
    """
    block = max(1, MAX_BIASES // max(1, keys.shape[0] * keys.shape[1]))
    parts = []
    for start in range(0, len(asked), block):
        rows = slice(start, start + block)
        bias = linear_bias(slopes, asked[rows], held, scope)
        parts.append(attend_keys(query[:, rows], keys, values, scale=scale, bias=bias))
    if len(parts) == 1:
        return parts[0]
    return State(torch.cat([p.out for p in parts], 1), torch.cat([p.lse for p in parts], 1))
