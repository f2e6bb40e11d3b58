"""Contracts of `attend_all`, `attend_causal` and `attend_window`, for many tokens at a time.

A library's kernels do the work, and no mask of tokens x keys is built: causal and windowed parts
are cut so that what remains is a square, a band, or needs no mask at all.
"""

from torch import Tensor

from common.errors import ShapeError
from engine.kernels.attend_causal import library
from engine.kernels.attend_causal.reference import attend_window_reference
from engine.kernels.merge_states import merge_states
from engine.kernels.state import State, empty_state


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
