"""Attention of a chunk of tokens to all before it, or to a window, with its log-sum-exp.

These are the canonical kernels of a document's prefill; the work is done by libraries of torch
(`attend_causal_library`), so that there is no Triton kernel.
"""

import torch
from torch import Tensor

from common.errors import ShapeError
from engine.kernels.prefill import attend_causal_library as library
from engine.kernels.shared.attend_keys import attend_keys
from engine.kernels.shared.checks import check_dims, check_strided
from engine.kernels.shared.merge_states import merge_states
from engine.kernels.shared.sizes import ceil_div
from engine.kernels.shared.state import State, empty_state


def attend_all(
    query: Tensor, keys: Tensor, values: Tensor, *, scale: float, softcap: float | None = None
) -> State:
    """Attend to every key.

    Args:
        query: (heads, tokens, head_dim), the heads of a GQA group side by side; the last dimension
            is contiguous.
        keys, values: (kv_heads, num_keys, head_dim) in the query's dtype; the last dimension is
            contiguous. num_keys may be 0.
        scale: factor on the dot product.
        softcap: Gemma-2's cap on scores, softcap * tanh(score / softcap); None for no cap.
    Returns: the state, out (heads, tokens, head_dim) and lse (heads, tokens) in nats.
    Raises: ShapeError if tensors do not fit together, or are strided within a row.
    Source: Attention Is All You Need, equation 1.
    """
    _check(query, keys, values)
    if keys.shape[1] == 0 or query.numel() == 0:
        return empty_state(query)
    return _attend(query, keys, values, scale=scale, softcap=softcap)


def attend_causal(
    query: Tensor, keys: Tensor, values: Tensor, *, scale: float, softcap: float | None = None
) -> State:
    """Attend as the last tokens of a text do: each to itself and to all tokens before it.

    All tokens of the chunk see all that lies before the chunk; within the chunk attention is
    causal. The two parts are merged by their log-sum-exp.

    Args:
        query: (heads, tokens, head_dim), those of the last tokens of the text; the last dimension
            is contiguous.
        keys, values: (kv_heads, num_keys, head_dim) of the whole text, in its order, as of
            `attend_all`.
        scale, softcap: as of `attend_all`.
    Returns: as `attend_all`.
    Raises: ShapeError as `attend_all`, or if there are fewer keys than tokens.
    Source: as `attend_all`; online softmax, https://arxiv.org/abs/1805.02867
    """
    _check(query, keys, values)
    past = keys.shape[1] - query.shape[1]
    if past < 0:
        raise ShapeError(f"{query.shape[1]} tokens cannot be the last of {keys.shape[1]}.")
    if query.numel() == 0:
        return empty_state(query)
    chunk = _attend(
        query, keys[:, past:], values[:, past:], scale=scale, softcap=softcap, causal=True
    )
    if past == 0:
        return chunk
    before = _attend(query, keys[:, :past], values[:, :past], scale=scale, softcap=softcap)
    return merge_states(before, chunk)


def attend_window(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    window: int,
    scale: float,
    softcap: float | None = None,
) -> State:
    """Attend as tokens with a sliding window do: each to itself and the `window - 1` before it.

    Time and memory are O(tokens x window).

    Args:
        query: (heads, tokens, head_dim); the last dimension is contiguous.
        keys, values: (kv_heads, window + tokens, head_dim): those of the `window` tokens before the
            query's, then the query's own; the last dimension is contiguous.
        window: tokens that a token sees, itself included.
        scale, softcap: as of `attend_all`.
    Returns: as `attend_all`.
    Raises: ShapeError as `attend_all`, or if there are not `window + tokens` keys.
    Source: as `attend_all`.
    """
    _check(query, keys, values)
    if keys.shape[1] != window + query.shape[1]:
        raise ShapeError(f"{keys.shape[1]} keys for {query.shape[1]} tokens after {window}.")
    if query.numel() == 0:
        return empty_state(query)
    if softcap is None and library.has_windows(query):
        return library.attend_window(query, keys, values, window=window, scale=scale)
    return attend_window_reference(query, keys, values, window=window, scale=scale, softcap=softcap)


def _attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    scale: float,
    softcap: float | None,
    causal: bool = False,
    mask: Tensor | None = None,
) -> State:
    """Attend by a library, or in plain torch where scores are capped, as no library caps them."""
    if softcap is None:
        return library.attend(query, keys, values, scale=scale, causal=causal, mask=mask)
    heads, tokens, head_dim = query.shape
    kv_heads = keys.shape[0]
    if causal:
        mask = torch.ones(tokens, tokens, dtype=torch.bool, device=query.device).tril()
    rows = query.reshape(kv_heads, -1, head_dim)
    seen = None if mask is None else mask.repeat(heads // kv_heads, 1)
    state = attend_keys(rows, keys, values, scale=scale, softcap=softcap, mask=seen)
    return State(state.out.reshape(query.shape), state.lse.reshape(heads, tokens))


def _check(query: Tensor, keys: Tensor, values: Tensor) -> None:
    heads, _, head_dim = check_dims("query", query)
    kv_heads, num_keys, _ = check_dims("keys", keys)
    check_strided("keys", keys, (kv_heads, num_keys, head_dim), query.dtype, query.device)
    check_strided("values", values, (kv_heads, num_keys, head_dim), query.dtype, query.device)
    for name, tensor in (("query", query), ("keys", keys), ("values", values)):
        if tensor.stride(2) != 1 and tensor.shape[2] > 1:
            raise ShapeError(f"{name} of strides {tensor.stride()} is strided within a row.")
    if kv_heads == 0 or heads % kv_heads:
        raise ShapeError(f"{heads} query heads do not divide into groups of {kv_heads} KV heads.")


def attend_window_reference(
    query: Tensor, keys: Tensor, values: Tensor, *, window: int, scale: float, softcap: float | None
) -> State:
    """Compute `attend_window` in blocks of tokens, each with the keys that its tokens may see.

    Args: as `attend_window`; nothing is checked.
    Returns: as `attend_window`.
    """
    heads, num_tokens, head_dim = query.shape
    kv_heads = keys.shape[0]
    block = min(window, num_tokens)
    padded = ceil_div(num_tokens, block) * block
    group_rows = _pad_tokens(query, padded).reshape(kv_heads, -1, padded // block, block, head_dim)
    rows = group_rows.transpose(1, 2).flatten(0, 1).flatten(1, 2)  # (blocks, group x block, d)
    mask = _window_mask(block, window, query.device).repeat(heads // kv_heads, 1)
    state = _attend(
        rows,
        _keys_by_block(keys, window, block, padded),
        _keys_by_block(values, window, block, padded),
        scale=scale,
        softcap=softcap,
        mask=mask,
    )
    out = state.out.reshape(kv_heads, -1, heads // kv_heads, block, head_dim).transpose(1, 2)
    lse = state.lse.reshape(kv_heads, -1, heads // kv_heads, block).transpose(1, 2)
    return State(
        out.reshape(heads, padded, head_dim)[:, :num_tokens],
        lse.reshape(heads, padded)[:, :num_tokens],
    )


def _window_mask(block: int, window: int, device: torch.device) -> Tensor:
    """Which of a block's keys each of its tokens sees: (block, window + block) bool."""
    token = torch.arange(block, device=device)[:, None] + window
    key = torch.arange(window + block, device=device)
    return (key <= token) & (key > token - window)


def _pad_tokens(tensor: Tensor, num_tokens: int) -> Tensor:
    """Append zeros (heads, tokens, head_dim) up to a number of tokens."""
    return torch.nn.functional.pad(tensor, (0, 0, 0, num_tokens - tensor.shape[1]))


def _keys_by_block(tensor: Tensor, window: int, block: int, num_tokens: int) -> Tensor:
    """Each block's keys, from (kv_heads, ...) to (kv_heads x blocks, window + block, head_dim)."""
    by_block = _pad_tokens(tensor, window + num_tokens).unfold(1, window + block, block)
    return by_block.transpose(2, 3).flatten(0, 1)
