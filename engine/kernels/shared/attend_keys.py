"""Exact attention over a given set of keys, with its log-sum-exp."""

import torch
from torch import Tensor

from engine.kernels.shared.checks import check_broadcastable, check_dims, check_strided
from engine.kernels.shared.scores import dot_products, scores_reference
from engine.kernels.shared.state import State, empty_state

MAX_SCORES = 1 << 25  # fp32 scores that the reference holds at a time: 128 MiB


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
    """Attend exactly to a set of keys; the query heads of a GQA group are rows of their KV head.

    Args:
        query: (kv_heads, rows, head_dim), rows = group x tokens, in any layout.
        keys, values: (kv_heads, num_keys, head_dim), in any order and layout, in the query's dtype;
            num_keys may be 0.
        scale: factor on the dot product.
        softcap: Gemma-2's cap on scores, softcap * tanh(score / softcap); None for no cap.
        mask: bool, True where a row sees a key, broadcastable to (kv_heads, rows, num_keys).
        bias: fp32, added to the scores, broadcastable to the same shape; -inf hides a key.
    Returns: the partial state; zeros and -inf in rows that see no key.
    Raises: ShapeError if shapes, dtypes or devices do not fit together.
    Source: Attention Is All You Need, equation 1.
    """
    heads, rows, head_dim = check_dims("query", query)
    num_keys = keys.shape[1] if keys.ndim == 3 else -1
    check_strided("keys", keys, (heads, num_keys, head_dim), query.dtype, query.device)
    check_strided("values", values, (heads, num_keys, head_dim), query.dtype, query.device)
    if mask is not None:
        check_broadcastable("mask", mask, (heads, rows, num_keys), torch.bool, query.device)
    if bias is not None:
        check_broadcastable("bias", bias, (heads, rows, num_keys), torch.float32, query.device)
    return attend_keys_reference(
        query, keys, values, scale=scale, softcap=softcap, mask=mask, bias=bias
    )


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
    """Compute `attend_keys` in torch, in blocks of rows so that memory stays bounded.

    Args: as `attend_keys`; nothing is checked.
    Returns: as `attend_keys`.
    """
    heads, rows, _ = query.shape
    num_keys = keys.shape[1]
    if 0 in (heads, rows, num_keys):
        return empty_state(query)
    mask, bias = (
        None if part is None else part.expand(heads, rows, num_keys) for part in (mask, bias)
    )
    block = max(1, MAX_SCORES // (heads * num_keys))
    parts = [
        _attend_block(
            query[:, start : start + block],
            keys,
            values,
            scale=scale,
            softcap=softcap,
            mask=None if mask is None else mask[:, start : start + block],
            bias=None if bias is None else bias[:, start : start + block],
        )
        for start in range(0, rows, block)
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
    scores = scores_reference(query, keys, scale=scale, softcap=softcap)  # (heads, rows, num_keys)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    if bias is not None:
        scores = scores + bias
    lse = torch.logsumexp(scores, dim=-1)  # (heads, rows)
    # A row that sees no key has -inf here, and -inf - -inf would be nan.
    finite_lse = lse.masked_fill(torch.isneginf(lse), 0.0)
    weights = (scores - finite_lse[..., None]).exp()
    return State(torch.matmul(weights.to(values.dtype), values).to(query.dtype), lse)


def attention_weights(
    query: Tensor,
    keys: Tensor,
    lse: Tensor,
    *,
    scale: float,
    softcap: float | None = None,
    bias: Tensor | None = None,
    power: float = 1.0,
) -> Tensor:
    """Return the softmax weights that rows give to some keys, given the log-sum-exp over all keys.

    Args:
        query: (kv_heads, rows, head_dim), in any layout.
        keys: (kv_heads, num_keys, head_dim), in any layout, in the query's dtype.
        lse: log-sum-exp in nats over every key that the rows see (kv_heads, rows), fp32.
        scale, softcap, bias: as of `attend_keys`.
        power: that weights are raised to.
    Returns: weights (kv_heads, rows, num_keys) in fp32; a row's sum is at most 1.
    Raises: ShapeError if shapes, dtypes or devices do not fit together.
    """
    heads, rows, head_dim = check_dims("query", query)
    num_keys = keys.shape[1] if keys.ndim == 3 else -1
    check_strided("keys", keys, (heads, num_keys, head_dim), query.dtype, query.device)
    check_strided("lse", lse, (heads, rows), torch.float32, query.device)
    if bias is not None:
        check_broadcastable("bias", bias, (heads, rows, num_keys), torch.float32, query.device)
    return attention_weights_reference(
        query, keys, lse, scale=scale, softcap=softcap, bias=bias, power=power
    )


def attention_weights_reference(
    query: Tensor,
    keys: Tensor,
    lse: Tensor,
    *,
    scale: float,
    softcap: float | None,
    bias: Tensor | None,
    power: float = 1.0,
) -> Tensor:
    """Compute `attention_weights` in torch.

    Args: as `attention_weights`; nothing is checked.
    Returns: as `attention_weights`.
    """
    if softcap is None and bias is None:
        scores = dot_products(query, keys)
    else:
        scores, scale = scores_reference(query, keys, scale=scale, softcap=softcap), 1.0
    if bias is not None:
        scores = scores + bias
    # Scaled, subtracted and raised in one pass: its time goes into moving scores.
    exponents = torch.add(-power * lse[..., None], scores, alpha=power * scale, out=scores)
    return exponents.exp_()
