"""A question's prefill in kernels that never wait for the host."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import torch

from engine.attend.clusters import (
    AttendedClusters,
    ClusterAttention,
    FullClusterAttention,
    SparseClusterAttention,
)
from engine.attend.lookup import ListedTokens, Lookup
from engine.document.budget_curve import Thresholds
from engine.document.cache import DocumentCache, LayerCache, LookupConfig
from engine.kernels.prefill.attend_tokens import AttendTokensInputs, attend_tokens
from engine.kernels.prefill.select_tokens import SelectTokensInputs, select_tokens
from engine.kernels.shared.accumulate_attention_mass import AttendedTokens
from engine.kernels.shared.sizes import HEAD_DIMS, MAX_ELEMENTS
from engine.kernels.shared.state import empty_state

log = logging.getLogger("lectern.decoding")


@dataclass(frozen=True)
class SparseClusterAttentionOnGpu:
    """Squeezed attention with one-level lookup in kernels; where they fail, as `SparseClusterAttention`."""

    thresholds: Thresholds
    config: LookupConfig

    def attend(self, lookup: Lookup, layer: LayerCache) -> AttendedClusters:
        """Look clusters up and attend to their tokens."""
        try:
            return self._attend(lookup, layer)
        except torch.OutOfMemoryError:
            raise
        except Exception:  # whatever a compiler or a driver may raise: the other way still works
            log.warning("attending without kernels: they failed", exc_info=True)
            return SparseClusterAttention(self.thresholds, self.config).attend(lookup, layer)

    def _attend(self, lookup: Lookup, layer: LayerCache) -> AttendedClusters:
        rows = lookup.rows.contiguous()
        selected = select_tokens(
            SelectTokensInputs(
                query=rows,
                centroids=layer.level2.centroids,
                offsets=layer.level2.offsets,
                threshold=torch.full((1,), self.thresholds.level2, device=rows.device),
                dense_lse=lookup.extra_lse.contiguous(),
                anchor_keys=layer.keys[:, :0],  # anchors are in `extra_lse`
                num_tokens=layer.num_tokens - layer.num_anchors,
                group=lookup.group,
                aggregation=self.config.aggregation,
                scale=lookup.scale,
                softcap=lookup.softcap,
            )
        )
        state = attend_tokens(
            AttendTokensInputs(
                query=rows,
                keys=layer.keys[:, layer.num_anchors :],
                values=layer.values[:, layer.num_anchors :],
                tokens=selected.tokens,
                counts=selected.counts,
                dense_state=empty_state(rows),
                scale=lookup.scale,
                softcap=lookup.softcap,
            )
        )
        listed = AttendedTokens(selected.tokens, selected.counts)
        return AttendedClusters(state, ListedTokens(listed, layer.level2.num_centroids))


def sparse_attention_for(
    document: DocumentCache, *, kernels: bool = True
) -> Callable[[Thresholds | None], ClusterAttention]:
    """How far thresholds reach into a document: in kernels on a GPU; None reaches everything."""
    kind: type[SparseClusterAttentionOnGpu | SparseClusterAttention] = SparseClusterAttention
    if kernels and on_gpu(document):
        if (reason := why_not_listed(document)) is None:
            kind = SparseClusterAttentionOnGpu
        else:
            log.info("attending without kernels: %s", reason)
    return lambda thresholds: (
        kind(thresholds, document.lookup) if thresholds else FullClusterAttention()
    )


def on_gpu(document: DocumentCache) -> bool:
    """Whether a document's tensors are on a GPU."""
    return document.layers[0].keys.is_cuda


def why_not_listed(document: DocumentCache) -> str | None:
    """What keeps a document's questions from being prefilled in kernels; None if nothing does."""
    if document.lookup.levels != 1:
        return "its lookup is hierarchical"
    for layer in document.layers:
        if not layer.has_clusters:
            continue
        head_dim = layer.keys.shape[2]
        if head_dim not in HEAD_DIMS:
            return f"its heads are {head_dim} wide, no power of two"
        if layer.num_tokens * head_dim >= MAX_ELEMENTS:
            return "it is too long"
    return None
