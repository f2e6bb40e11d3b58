"""`note_weights` in plain torch."""

import torch
from torch import Tensor

from engine.kernels.attend_keys import attention_weights
from engine.kernels.note_weights.listed import Listed


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
