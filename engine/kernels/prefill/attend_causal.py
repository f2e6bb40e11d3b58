"""Causal attention of a chunk of tokens to all before it, or to a window, with its log-sum-exp."""

import torch
from torch import Tensor

from common.errors import ShapeError
from engine.kernels.prefill import attend_causal_library as library
from engine.kernels.shared.merge_states import merge_states
from engine.kernels.shared.state import State, empty_state


def attend_all(
    query: Tensor, keys: Tensor, values: Tensor, *, scale: float, softcap: float | None = None
) -> State:
    """Attend to every key.

    Args:
        query: (heads, tokens, head_dim), the heads of a GQA group side by side.
        keys, values: (kv_heads, num_keys, head_dim); num_keys may be 0.
        scale: factor on the dot product.
        softcap: Gemma-2's cap on scores.
    Returns: the state, out (heads, tokens, head_dim) and lse (heads, tokens).
    Raises: ShapeError if heads, head_dim or the number of values do not fit.
    """
    _check(query, keys, values)
    if keys.shape[1] == 0 or query.numel() == 0:
        return empty_state(query)
    return library.attend(query, keys, values, scale=scale, softcap=softcap)


def attend_causal(
    query: Tensor, keys: Tensor, values: Tensor, *, scale: float, softcap: float | None = None
) -> State:
    """Attend as the last tokens of a text do: each to itself and to all before it.

    All of the chunk sees all that lies before it; the chunk's own square is causal. Both parts are
    joined by their log-sum-exp.

    Args:
        query: (heads, tokens, head_dim), the last of the keys' tokens.
        keys, values: (kv_heads, num_keys, head_dim), in the text's order.
        scale, softcap: as for `attend_all`.
    Returns and raises as `attend_all`.
    """
    _check(query, keys, values)
    past = keys.shape[1] - query.shape[1]
    if past < 0:
        raise ShapeError(f"{query.shape[1]} tokens cannot be the last of {keys.shape[1]}.")
    if query.numel() == 0:
        return empty_state(query)
    square = library.attend(
        query, keys[:, past:], values[:, past:], scale=scale, softcap=softcap, causal=True
    )
    if past == 0:
        return square
    before = library.attend(query, keys[:, :past], values[:, :past], scale=scale, softcap=softcap)
    return merge_states(before, square)


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
        query: (heads, tokens, head_dim).
        keys, values: (kv_heads, window + tokens, head_dim): those of the `window` tokens before the
            query's, then the query's own.
        scale, softcap: as for `attend_all`.
    Returns and raises as `attend_all`.
    """
    _check(query, keys, values)
    if keys.shape[1] != window + query.shape[1]:
        raise ShapeError(f"{keys.shape[1]} keys for {query.shape[1]} tokens after {window}.")
    if query.numel() == 0:
        return empty_state(query)
    if softcap is None and library.has_windows(query):
        return library.attend_window(query, keys, values, window=window, scale=scale)
    return attend_window_reference(query, keys, values, window=window, scale=scale, softcap=softcap)


def _check(query: Tensor, keys: Tensor, values: Tensor) -> None:
    fits = keys.shape == values.shape and keys.shape[2] == query.shape[2]
    if not fits or keys.shape[0] == 0 or query.shape[0] % keys.shape[0]:
        raise ShapeError(
            f"Query {tuple(query.shape)}, keys {tuple(keys.shape)} and values "
            f"{tuple(values.shape)} do not fit together."
        )


def attend_window_reference(
    query: Tensor, keys: Tensor, values: Tensor, *, window: int, scale: float, softcap: float | None
) -> State:
    """See `attend_window`."""
    heads, num_tokens, head_dim = query.shape
    kv_heads = keys.shape[0]
    block = min(window, num_tokens)
    padded = -(-num_tokens // block) * block
    group_rows = _padded(query, padded).reshape(kv_heads, -1, padded // block, block, head_dim)
    rows = group_rows.transpose(1, 2).flatten(0, 1).flatten(1, 2)  # (blocks, group x block, d)
    mask = _band(block, window, query.device).repeat(heads // kv_heads, 1)
    state = library.attend(
        rows,
        _stretches(keys, window, block, padded),
        _stretches(values, window, block, padded),
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


def _band(block: int, window: int, device: torch.device) -> Tensor:
    """Which of a stretch's keys each token of a block sees: (block, window + block)."""
    token = torch.arange(block, device=device)[:, None] + window
    key = torch.arange(window + block, device=device)
    return (key <= token) & (key > token - window)


def _padded(tensor: Tensor, num_tokens: int) -> Tensor:
    """Zeros behind, up to a number of tokens."""
    return torch.nn.functional.pad(tensor, (0, 0, 0, num_tokens - tensor.shape[1]))


def _stretches(tensor: Tensor, window: int, block: int, num_tokens: int) -> Tensor:
    """(kv_heads x blocks, window + block, head_dim): each block's keys."""
    stretches = _padded(tensor, window + num_tokens).unfold(1, window + block, block)
    return stretches.transpose(2, 3).flatten(0, 1)
