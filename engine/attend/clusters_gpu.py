"""Sparse attention over clusters in Triton kernels that never wait for the host."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import torch

from engine.attend.clusters import (
    AttendedClusters,
    ClusterAttention,
    DeviceSelection,
    FullClusterAttention,
    Lookup,
    SparseClusterAttention,
)
from engine.config import LookupConfig
from engine.document.budget import Thresholds
from engine.document.cache import DocumentCache, LayerCache
from engine.kernels.prefill.attend_tokens import AttendTokensInputs, attend_tokens
from engine.kernels.prefill.select_tokens import SelectTokensInputs, select_tokens
from engine.kernels.shared.accumulate_attention_mass import AttendedTokens
from engine.kernels.shared.sizes import MAX_ELEMENTS, has_kernels
from engine.kernels.shared.state import empty_state

log = logging.getLogger("lectern.decoding")


@dataclass(frozen=True)
class SparseClusterAttentionOnGpu:
    """Squeezed Attention with one-level lookup in kernels.

    Where a kernel fails, the failure is logged and `SparseClusterAttention` answers instead.
    """

    thresholds: Thresholds
    config: LookupConfig

    def attend(self, lookup: Lookup, layer: LayerCache) -> AttendedClusters:
        """Select clusters and attend to their tokens."""
        try:
            return self._attend(lookup, layer)
        except torch.OutOfMemoryError:
            raise
        except Exception:  # whatever a compiler or a driver may raise: plain torch still works
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
        attended = AttendedTokens(selected.tokens, selected.counts)
        return AttendedClusters(state, DeviceSelection(attended, layer.level2.num_centroids))


def cluster_attention_for(
    document: DocumentCache, *, kernels: bool = True
) -> Callable[[Thresholds], ClusterAttention]:
    """Choose how thresholds are applied to a document: in kernels if it is on a GPU.

    Args:
        kernels: whether Triton kernels may be used at all.
    Returns: from thresholds to the attention that applies them.
    """
    sparse: type[SparseClusterAttentionOnGpu | SparseClusterAttention] = SparseClusterAttention
    if kernels and on_gpu(document):
        if (reason := why_without_kernels(document)) is None:
            sparse = SparseClusterAttentionOnGpu
        else:
            log.info("attending without kernels: %s", reason)

    def attention(thresholds: Thresholds) -> ClusterAttention:
        if thresholds.reads_all:
            return FullClusterAttention()
        return sparse(thresholds, document.lookup)

    return attention


def on_gpu(document: DocumentCache) -> bool:
    """Whether a document's tensors are on a GPU."""
    return document.layers[0].keys.is_cuda


def why_without_kernels(document: DocumentCache) -> str | None:
    """Say what keeps questions about a document from being prefilled in kernels, if anything."""
    if document.lookup.levels != 1:
        return "its lookup is hierarchical"
    for layer in document.layers:
        if not layer.has_clusters:
            continue
        head_dim = layer.keys.shape[2]
        if not has_kernels(head_dim):
            return f"its heads are {head_dim} wide, which is no multiple of 16 up to 256"
        if layer.num_tokens * head_dim >= MAX_ELEMENTS:
            return "it is too long"
    return None
