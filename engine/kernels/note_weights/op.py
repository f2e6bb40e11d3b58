"""Contract of `note_weights`."""

from torch import Tensor

from common.errors import ShapeError
from engine.kernels.note_weights.listed import Listed
from engine.kernels.note_weights.reference import note_weights_reference


def note_weights(
    mass: Tensor,
    query: Tensor,
    lse: Tensor,
    keys: Tensor,
    positions: Tensor,
    listed: Listed,
    *,
    num_anchors: int,
    scale: float,
    softcap: float | None = None,
) -> None:
    """Add the squares of one token's attention weights, summed over the group, to `mass`.

    Anchors and listed tokens are counted. On a GPU nothing waits for the host; the order of the
    additions, and so their rounding, may differ from run to run.

    Args:
        mass: (tokens,) fp32, by place in the document; added to.
        query: (kv_heads, group, head_dim), contiguous.
        lse: log-sum-exp in nats over all that the token sees (kv_heads, group), fp32, contiguous.
        keys: (kv_heads, num_anchors + clustered tokens, head_dim), rows contiguous.
        positions: (kv_heads, num_anchors + clustered tokens) int32, contiguous: each key's place.
        listed: clustered tokens that were attended to.
        num_anchors: keys that were attended to in any case, and come first.
        scale, softcap: the model's own.
    Raises: ShapeError if the shapes do not fit.
    """
    heads, _, head_dim = query.shape
    if keys.shape[0] != heads or keys.shape[2] != head_dim or positions.shape != keys.shape[:2]:
        raise ShapeError(
            f"Query {tuple(query.shape)}, keys {tuple(keys.shape)} and positions "
            f"{tuple(positions.shape)} do not fit together."
        )
    if lse.shape != query.shape[:2] or listed.counts.shape != (heads,):
        raise ShapeError(f"{tuple(lse.shape)} masses for a query of {tuple(query.shape)}.")
    known = (*query.shape[:2], keys.shape[1] - num_anchors)
    if listed.scores is not None and listed.scores.shape != known:
        raise ShapeError(f"Scores of {tuple(listed.scores.shape)} are not {known}.")
    inputs = (mass, query, lse, keys, positions, listed)
    if query.is_cuda:
        from engine.kernels.note_weights.kernel import note_weights_triton

        note_weights_triton(*inputs, num_anchors=num_anchors, scale=scale, softcap=softcap)
    else:
        note_weights_reference(*inputs, num_anchors=num_anchors, scale=scale, softcap=softcap)
