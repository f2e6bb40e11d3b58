"""Exact attention over the tokens that each head lists."""

import torch
from torch import Tensor

from common.errors import ShapeError
from engine.kernels.shared.attend_keys import attend_keys
from engine.kernels.shared.merge_states import merge_states
from engine.kernels.shared.sizes import MAX_ELEMENTS
from engine.kernels.shared.state import State


def attend_tokens(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    tokens: Tensor,
    counts: Tensor,
    around: State,
    *,
    scale: float,
    softcap: float | None = None,
) -> State:
    """Attend to the listed tokens of each head, and join what was attended to around them.

    On a GPU work is cut evenly over heads that list very different numbers, and nothing waits for
    the host.

    Args:
        query: (kv_heads, group x tokens, head_dim), contiguous.
        keys, values: (kv_heads, num_tokens, head_dim), of equal strides; rows are contiguous.
        tokens: (kv_heads, capacity) int32, indices into keys, the first `counts` of a head count.
        counts: (kv_heads,) int32; may be 0.
        around: the state of other keys, out and lse as of `State`, contiguous.
        scale, softcap: the model's own.
    Returns: the joint state.
    Raises: ShapeError if the shapes do not fit, or a head's keys hold 2^31 elements or more.
    Source: Squeezed Attention, section 4.2; Flash-Decoding.
    """
    heads, _, head_dim = query.shape
    if keys.shape != values.shape or keys.shape[0] != heads or keys.shape[2] != head_dim:
        raise ShapeError(
            f"Query {tuple(query.shape)}, keys {tuple(keys.shape)} and values "
            f"{tuple(values.shape)} do not fit together."
        )
    if tokens.shape[0] != heads or counts.shape != (heads,) or around.out.shape != query.shape:
        raise ShapeError(
            f"Tokens {tuple(tokens.shape)}, counts {tuple(counts.shape)} or a state of "
            f"{tuple(around.out.shape)} do not fit a query of {tuple(query.shape)}."
        )
    if keys.shape[1] * head_dim >= MAX_ELEMENTS or keys.stride() != values.stride():
        raise ShapeError(f"Keys {tuple(keys.shape)} are too many, or lie unlike their values.")
    inputs = (query, keys, values, tokens, counts, around)
    if query.is_cuda:
        from engine.kernels.prefill.triton.attend_tokens.launch import attend_tokens_triton

        return attend_tokens_triton(*inputs, scale=scale, softcap=softcap)
    return attend_tokens_reference(*inputs, scale=scale, softcap=softcap)


def attend_tokens_reference(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    tokens: Tensor,
    counts: Tensor,
    around: State,
    *,
    scale: float,
    softcap: float | None,
) -> State:
    """See `attend_tokens`."""
    parts = []
    for head, count in enumerate(counts.tolist()):
        listed = tokens[head, :count].long()
        part = attend_keys(
            query[head : head + 1],
            keys[head, listed][None],
            values[head, listed][None],
            scale=scale,
            softcap=softcap,
        )
        parts.append(part)
    chosen = State(torch.cat([p.out for p in parts]), torch.cat([p.lse for p in parts]))
    return merge_states(around, chosen)
