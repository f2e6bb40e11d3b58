"""Contract of `merge_states`."""

from common.errors import ShapeError
from engine.kernels.merge_states.reference import merge_states_reference
from engine.kernels.state import State


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
        from engine.kernels.merge_states.kernel import merge_states_triton

        return merge_states_triton(a, b)
    return merge_states_reference(a, b)
