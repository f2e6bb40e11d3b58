"""Joining partial attention over disjoint sets of keys."""

import torch

from common.errors import ShapeError
from engine.kernels.shared.state import State


def merge_states(a: State, b: State, *, fused: bool = False) -> State:
    """Join partial attention over two disjoint sets of keys.

    Args:
        a, b: partial states, out (heads, rows, head_dim) and lse (heads, rows), alike in shape.
        fused: on a GPU in one launch of our own.
    Returns: the joint state; zeros and -inf where neither part saw a key.
    Raises: ShapeError if the parts differ in shape, dtype or device.
    Source: online softmax, https://arxiv.org/abs/1805.02867
    """
    if a.out.shape != b.out.shape or a.lse.shape != b.lse.shape:
        raise ShapeError(f"States differ in shape: {tuple(a.out.shape)}, {tuple(b.out.shape)}.")
    if a.out.dtype != b.out.dtype or a.out.device != b.out.device:
        raise ShapeError("States differ in dtype or device.")
    if fused and a.out.is_cuda:
        from engine.kernels.shared.triton.merge_states import merge_states_triton

        return merge_states_triton(a, b)
    return merge_states_reference(a, b)


def merge_states_reference(a: State, b: State) -> State:
    """See `merge_states`."""
    lse = torch.logaddexp(a.lse, b.lse)  # (heads, rows)
    # Where neither part saw a key -inf - -inf is nan: such a row has no share of anything.
    seen = lse.masked_fill(torch.isneginf(lse), 0.0)
    share_a, share_b = ((part.lse - seen).exp()[..., None] for part in (a, b))
    out = share_a * a.out.float() + share_b * b.out.float()
    return State(out.to(a.out.dtype), lse)
