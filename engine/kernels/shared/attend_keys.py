"""Exact attention over a given set of keys, with its log-sum-exp."""

import torch
from torch import Tensor

from common.errors import ShapeError
from engine.kernels.shared.state import State, empty_state


def attend_keys(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    scale: float,
    softcap: float | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> State:
    """Attend exactly to a set of keys; the GQA group is folded into the rows.

    Args:
        query: (kv_heads, rows, head_dim), rows = group x tokens.
        keys, values: (kv_heads, num_keys, head_dim), in any order; num_keys may be 0.
        scale: factor on the dot product.
        softcap: Gemma-2's cap on scores, softcap * tanh(score / softcap).
        mask: bool, True where a row sees a key, broadcastable to (kv_heads, rows, num_keys).
        bias: fp32, added to the scores, broadcastable to the same; -inf hides a key.
    Returns: the partial state; zeros and -inf in rows that see no key.
    Raises: ShapeError if heads, head_dim or the number of values do not fit.
    """
    heads, _, head_dim = query.shape
    if keys.shape != values.shape or keys.shape[0] != heads or keys.shape[2] != head_dim:
        raise ShapeError(
            f"Query {tuple(query.shape)}, keys {tuple(keys.shape)} and values "
            f"{tuple(values.shape)} do not fit together."
        )
    return attend_keys_reference(
        query, keys, values, scale=scale, softcap=softcap, mask=mask, bias=bias
    )


def attention_weights(
    query: Tensor,
    keys: Tensor,
    lse: Tensor,
    *,
    scale: float,
    softcap: float | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """The softmax weights that rows give to some keys, given their log-sum-exp over all keys.

    Args:
        query: (kv_heads, rows, head_dim).
        keys: (kv_heads, num_keys, head_dim).
        lse: (kv_heads, rows) over every key that the rows see, fp32.
        bias: as in `attend_keys`.
    Returns: weights (kv_heads, rows, num_keys) in fp32, at most 1 in sum over a row.
    """
    scores = scores_reference(query, keys, scale=scale, softcap=softcap)
    return ((scores if bias is None else scores + bias) - lse[..., None]).exp()


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
