"""How much the tokens that were listed weigh, added up by their places in the document."""

from dataclasses import dataclass

import torch
from torch import Tensor

from common.errors import ShapeError
from engine.kernels.shared.attend_keys import attention_weights


@dataclass(frozen=True)
class Listed:
    """Clustered tokens of each head, one by one or in pieces of runs.

    Attributes:
        items: (kv_heads, capacity) int32: indices into the clustered tokens, or where `piece` > 1
            pieces of runs, start x 32 + length.
        counts: (kv_heads,) int32, how many items of each head count.
        piece: longest piece, a power of two of at most 16; 1 if items are tokens.
        scores: (kv_heads, group, clustered tokens) fp32, contiguous, of listed tokens at least, as
            `attend_runs` leaves them: then their keys are not read again.
    """

    items: Tensor
    counts: Tensor
    piece: int = 1
    scores: Tensor | None = None


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
        from engine.kernels.shared.triton.attention_mass import note_weights_triton

        note_weights_triton(*inputs, num_anchors=num_anchors, scale=scale, softcap=softcap)
    else:
        note_weights_reference(*inputs, num_anchors=num_anchors, scale=scale, softcap=softcap)


def note_weights_reference(
    mass: Tensor,
    query: Tensor,
    lse: Tensor,
    keys: Tensor,
    positions: Tensor,
    listed: Listed,
    *,
    num_anchors: int,
    scale: float,
    softcap: float | None,
) -> None:
    """See `note_weights`."""
    anchors = torch.arange(num_anchors, device=keys.device)
    for head, count in enumerate(listed.counts.tolist()):
        tokens, seen = _tokens(listed.items[head, :count], listed.piece), anchors
        if listed.scores is None:
            seen = torch.cat((anchors, num_anchors + tokens))
        else:
            known = (listed.scores[head][:, tokens] - lse[head][:, None]).exp()
            places = positions[head, num_anchors + tokens].long()
            mass.index_add_(0, places, known.square().sum(0))
        weights = attention_weights(
            query[head][None],
            keys[head, seen][None],
            lse[head][None],
            scale=scale,
            softcap=softcap,
        )
        mass.index_add_(0, positions[head, seen].long(), weights[0].square().sum(0))


def _tokens(items: Tensor, piece: int) -> Tensor:
    """The listed tokens, one by one."""
    if piece == 1:
        return items.long()
    lane = torch.arange(piece, device=items.device)
    tokens = (items >> 5).long()[:, None] + lane
    return tokens[lane < (items & 31)[:, None]]
