"""Contract of `attend_near`."""

from torch import Tensor

from common.errors import ShapeError
from engine.kernels.attend_near.near import NearKeys
from engine.kernels.attend_near.reference import attend_near_reference
from engine.kernels.limits import HEAD_DIMS
from engine.kernels.state import State


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
        from engine.kernels.attend_near.kernel import attend_near_triton

        return attend_near_triton(query, near, tokens=tokens, scale=scale, softcap=softcap)
    return attend_near_reference(query, near, tokens=tokens, scale=scale, softcap=softcap)


def supports(head_dim: int) -> bool:
    """Whether the kernel can take heads of this width on a GPU."""
    return head_dim in HEAD_DIMS
