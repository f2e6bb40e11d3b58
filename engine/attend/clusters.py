"""How far a question reaches into a layer's clustered tokens: to all, or to those looked up."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from engine.attend.lookup import ListedTokens, Lookup, Selection, select
from engine.document.budget_curve import Thresholds
from engine.document.cache import LayerCache, LookupConfig
from engine.kernels.prefill.attend_causal import attend_all
from engine.kernels.shared.attend_keys import attend_keys
from engine.kernels.shared.state import State


class AttendedClusters(NamedTuple):
    """Attention over clustered tokens.

    Attributes:
        state: the partial attention.
        selection: which tokens were attended to; None for all of them.
    """

    state: State
    selection: Selection | ListedTokens | None


class ClusterAttention(Protocol):
    """A way to attend to a layer's clustered tokens."""

    def attend(self, lookup: Lookup, layer: LayerCache) -> AttendedClusters:
        """Attend with `lookup.rows` to some of the layer's clustered tokens."""
        ...


class FullClusterAttention:
    """Budget `exact`: every token."""

    def attend(self, lookup: Lookup, layer: LayerCache) -> AttendedClusters:
        """Attend to all clustered tokens."""
        state = attend_all(  # a library's: documents are long, and all of it is read
            lookup.rows,
            layer.keys[:, layer.num_anchors :],
            layer.values[:, layer.num_anchors :],
            scale=lookup.scale,
            softcap=lookup.softcap,
        )
        return AttendedClusters(state, None)


@dataclass(frozen=True)
class SparseClusterAttention:
    """Squeezed attention: the clusters that a centroid lookup chooses, exactly."""

    thresholds: Thresholds
    config: LookupConfig

    def attend(self, lookup: Lookup, layer: LayerCache) -> AttendedClusters:
        """Look clusters up and attend to their tokens."""
        selection = select(lookup, layer, self.thresholds, self.config)
        return AttendedClusters(attend_selected(lookup, layer, selection), selection)


def attend_selected(lookup: Lookup, layer: LayerCache, selection: Selection) -> State:
    """Attend exactly to the selected tokens, head by head: heads choose very different numbers."""
    parts = [
        attend_keys(
            lookup.rows[head : head + 1],
            gather(layer.keys, layer, head, chosen),
            gather(layer.values, layer, head, chosen),
            scale=lookup.scale,
            softcap=lookup.softcap,
        )
        for head, chosen in enumerate(selection.tokens)
    ]
    return State(torch.cat([p.out for p in parts]), torch.cat([p.lse for p in parts]))


def gather(tensor: Tensor, layer: LayerCache, head: int, chosen: Tensor) -> Tensor:
    """The chosen clustered rows of one head, (1, chosen, head_dim)."""
    return tensor[head, layer.num_anchors :].index_select(0, chosen)[None]
