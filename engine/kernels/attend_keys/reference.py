"""`attend_keys` in plain torch, in blocks of rows so that scores stay small."""

import torch
from torch import Tensor

from engine.kernels.state import State, empty_state

MAX_SCORES = 1 << 25  # fp32 elements held at a time: 128 MiB


def scores_reference(query: Tensor, keys: Tensor, *, scale: float, softcap: float | None) -> Tensor:
    """Scaled and capped dot products (heads, rows, num_keys) in fp32."""
    # In half precision a score of 200 would be off by 0.06 (bf16: 0.5), and 70,000 be infinite.
    scores = torch.matmul(query.float(), keys.float().transpose(1, 2)) * scale
    return scores if softcap is None else torch.tanh(scores / softcap) * softcap


def attend_keys_reference(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    scale: float,
    softcap: float | None,
    mask: Tensor | None,
    bias: Tensor | None,
) -> State:
    """See `attend_keys`."""
    heads, rows, _ = query.shape
    num_keys = keys.shape[1]
    if 0 in (heads, rows, num_keys):
        return empty_state(query)
    mask, bias = (one if one is None else one.expand(heads, rows, num_keys) for one in (mask, bias))
    block = max(1, MAX_SCORES // (heads * num_keys))
    parts = [
        _attend_block(
            query[:, at : at + block],
            keys,
            values,
            scale=scale,
            softcap=softcap,
            mask=None if mask is None else mask[:, at : at + block],
            bias=None if bias is None else bias[:, at : at + block],
        )
        for at in range(0, rows, block)
    ]
    if len(parts) == 1:
        return parts[0]
    return State(torch.cat([p.out for p in parts], 1), torch.cat([p.lse for p in parts], 1))


def _attend_block(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    scale: float,
    softcap: float | None,
    mask: Tensor | None,
    bias: Tensor | None,
) -> State:
    scores = scores_reference(query, keys, scale=scale, softcap=softcap)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    if bias is not None:
        scores = scores + bias
    lse = torch.logsumexp(scores, dim=-1)
    seen = lse.masked_fill(torch.isneginf(lse), 0.0)  # else a row that sees no key turns to nan
    weights = (scores - seen[..., None]).exp()
    return State(torch.matmul(weights.to(values.dtype), values).to(query.dtype), lse)
