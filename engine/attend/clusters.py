"""Attention over a layer's clustered tokens: over all of them, or over those that are selected."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from engine.attend.lookup import (
    DeviceSelection,
    FullSelection,
    Lookup,
    Selection,
    select_clusters,
)
from engine.config import LookupConfig
from engine.document.budget import Thresholds
from engine.document.cache import LayerCache
from engine.kernels.prefill.attend_causal import attend_all
from engine.kernels.shared.attend_keys import attend_keys
from engine.kernels.shared.state import State


class AttendedClusters(NamedTuple):
    """Attention over clustered tokens.

    Attributes:
        state: the partial attention over them.
        selection: which tokens were attended to.
    """

    state: State
    selection: Selection | DeviceSelection | FullSelection


class ClusterAttention(Protocol):
    """A way to attend to a layer's clustered tokens."""

    def attend(self, lookup: Lookup, layer: LayerCache) -> AttendedClusters:
        """Attend with `lookup.rows` to some or all of the layer's clustered tokens."""
        ...


class FullClusterAttention:
    """Budget `exact`: attention over every clustered token."""

    def attend(self, lookup: Lookup, layer: LayerCache) -> AttendedClusters:
        """Attend to all clustered tokens through a library's kernel."""
        state = attend_all(
            lookup.rows,
            layer.keys[:, layer.num_anchors :],
            layer.values[:, layer.num_anchors :],
            scale=lookup.scale,
            softcap=lookup.softcap,
        )
        return AttendedClusters(state, FullSelection.of(layer))


@dataclass(frozen=True)
class SparseClusterAttention:
    """Squeezed Attention: exact attention over the clusters that a centroid lookup selects."""

    thresholds: Thresholds
    config: LookupConfig

    def attend(self, lookup: Lookup, layer: LayerCache) -> AttendedClusters:
        """Select clusters and attend to their tokens."""
        selection = select_clusters(lookup, layer, self.thresholds, self.config)
        return AttendedClusters(attend_selected(lookup, layer, selection), selection)


def attend_selected(lookup: Lookup, layer: LayerCache, selection: Selection) -> State:
    """Attend exactly to the selected tokens.

    Heads select very different numbers of tokens, so they are taken one by one.

    Returns: the state, out (kv_heads, group x tokens, head_dim) and lse (kv_heads, group x tokens).
    """
    parts = [
        attend_keys(
            lookup.rows[head : head + 1],
            gather_tokens(layer.keys, layer, head, tokens),
            gather_tokens(layer.values, layer, head, tokens),
            scale=lookup.scale,
            softcap=lookup.softcap,
        )
        for head, tokens in enumerate(selection.tokens)
    ]
    return State(torch.cat([p.out for p in parts]), torch.cat([p.lse for p in parts]))


def gather_tokens(tensor: Tensor, layer: LayerCache, head: int, tokens: Tensor) -> Tensor:
    """Copy clustered rows of one head out of the layer's keys or values.

    Args:
        tensor: the layer's keys or values (retrieval_heads, tokens, head_dim).
        tokens: indices into the clustered tokens (selected,) int64.
    Returns: (1, selected, head_dim).
    """
    return tensor[head, layer.num_anchors :].index_select(0, tokens)[None]
