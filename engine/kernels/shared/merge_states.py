"""Merging partial attention over disjoint sets of keys."""

import torch

from engine.kernels.shared.checks import check_dims, check_strided
from engine.kernels.shared.state import State


def merge_states(a: State, b: State, *, fused: bool = False) -> State:
    """Merge partial attention over two disjoint sets of keys.

    Args:
        a, b: partial states, out (heads, rows, head_dim) in the same dtype and lse (heads, rows) in
            fp32 and nats, in any layout.
        fused: on a GPU take one Triton launch instead of several of torch.
    Returns: the joint state; zeros and -inf in rows of which neither part saw a key.
    Raises: ShapeError if the parts differ in shape, dtype or device.
    Source: online softmax, https://arxiv.org/abs/1805.02867
    """
    shape, dtype, device = check_dims("out of a", a.out), a.out.dtype, a.out.device
    check_strided("lse of a", a.lse, shape[:2], torch.float32, device)
    check_strided("out of b", b.out, shape, dtype, device)
    check_strided("lse of b", b.lse, shape[:2], torch.float32, device)
    if fused and a.out.is_cuda:
        from engine.kernels.shared.triton.merge_states import merge_states_triton

        return merge_states_triton(a, b)
    return merge_states_reference(a, b)


def merge_states_reference(a: State, b: State) -> State:
    """Compute `merge_states` in torch.

    Args: as `merge_states`; nothing is checked.
    Returns: as `merge_states`.
    """
    lse = torch.logaddexp(a.lse, b.lse)  # (heads, rows)
    # Where neither part saw a key -inf - -inf is nan: such a row has no share of anything.
    finite_lse = lse.masked_fill(torch.isneginf(lse), 0.0)
    share_a, share_b = ((part.lse - finite_lse).exp()[..., None] for part in (a, b))
    out = share_a * a.out.float() + share_b * b.out.float()
    return State(out.to(a.out.dtype), lse)
