"""What every token of a question sees: the question so far, and what lies near in the document."""

from dataclasses import dataclass

import torch
from torch import Tensor

from common.errors import ShapeError
from engine.kernels.shared.attend_keys import attend_keys
from engine.kernels.shared.merge_states import merge_states
from engine.kernels.shared.sizes import HEAD_DIMS
from engine.kernels.shared.state import State


@dataclass(frozen=True)
class NearKeys:
    """Keys that a question's tokens attend to in any case.

    Attributes:
        own_keys, own_values: the question's (kv_heads, own, head_dim), in any order of memory but
            for the last dimension; a token sees itself and those before it.
        anchor_keys, anchor_values: of the first KV heads, the retrieval heads (retrieval, anchors,
            head_dim), of equal strides; rows are contiguous.
        kept_keys, kept_values: what the other heads, streaming heads, see of the document
            (streaming, kept, head_dim), of equal strides; rows are contiguous. None if there are
            no such heads.
        log_last: what is added to the score of the last kept key: the log of how many tokens it
            stands for.
    """

    own_keys: Tensor
    own_values: Tensor
    anchor_keys: Tensor
    anchor_values: Tensor
    kept_keys: Tensor | None = None
    kept_values: Tensor | None = None
    log_last: float = 0.0


def attend_near(
    query: Tensor, near: NearKeys, *, tokens: int, scale: float, softcap: float | None = None
) -> State:
    """Attend to the question causally, and to anchors or to what streaming heads keep.

    On a GPU it is one launch.

    Args:
        query: the question's last tokens (kv_heads, group x tokens, head_dim), contiguous.
        near: what they see.
        tokens: how many they are.
        scale, softcap: the model's own.
    Returns: the state of all KV heads.
    Raises: ShapeError if the shapes do not fit.
    Source: RazorAttention, equation 5; online softmax.
    """
    heads, rows, head_dim = query.shape
    own = near.own_keys
    if own.shape != near.own_values.shape or own.shape[::2] != (heads, head_dim):
        raise ShapeError(f"A question of {tuple(own.shape)} for a query of {tuple(query.shape)}.")
    if own.stride(2) != 1 or near.own_values.stride(2) != 1:
        raise ShapeError("The question's keys or values are strided within a row.")
    if rows % tokens or own.shape[1] < tokens:
        raise ShapeError(f"{rows} rows and {own.shape[1]} keys for {tokens} tokens.")
    pairs = [(near.anchor_keys, near.anchor_values)]
    if near.kept_keys is not None and near.kept_values is not None:
        pairs.append((near.kept_keys, near.kept_values))
    if sum(len(keys) for keys, _ in pairs) != heads:
        raise ShapeError(f"Near keys of {[len(keys) for keys, _ in pairs]} for {heads} KV heads.")
    for keys, values in pairs:
        if keys.shape != values.shape or keys.stride() != values.stride():
            raise ShapeError("Near keys lie unlike their values.")
        if keys.shape[2] != head_dim or keys.stride()[1:] != (head_dim, 1):
            raise ShapeError(f"Near keys of {tuple(keys.shape)}, or strided ones.")
    if query.is_cuda:
        from engine.kernels.prefill.triton.attend_near import attend_near_triton

        return attend_near_triton(query, near, tokens=tokens, scale=scale, softcap=softcap)
    return attend_near_reference(query, near, tokens=tokens, scale=scale, softcap=softcap)


def supports(head_dim: int) -> bool:
    """Whether the kernel can take heads of this width on a GPU."""
    return head_dim in HEAD_DIMS


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
