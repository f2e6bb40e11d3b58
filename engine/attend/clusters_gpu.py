"""Sparse attention over clusters in Triton kernels that never wait for the host."""

import logging
from collections.abc import Callable

import torch
from torch import Tensor

from engine.attend.clusters import (
    AttendedClusters,
    BudgetedClusterAttention,
    ClusterAttention,
    DeviceSelection,
    FullClusterAttention,
    Lookup,
    SparseClusterAttention,
)
from engine.document.budget import Thresholds
from engine.document.cache import DocumentCache, LayerCache
from engine.fallbacks import Cause, Fallbacks, Part
from engine.kernels.prefill.attend_tokens import AttendTokensInputs, attend_tokens
from engine.kernels.prefill.select_tokens import SelectTokensInputs, select_tokens
from engine.kernels.shared.accumulate_attention_mass import AttendedTokens
from engine.kernels.shared.sizes import MAX_ELEMENTS, has_kernels
from engine.kernels.shared.state import State, empty_state

log = logging.getLogger("lectern.decoding")


class ClusterAttentionOnGpu:
    """Sparse attention with one-level lookup in kernels.

    Args:
        fallback: selects the same clusters in torch. It answers, and the failure is logged, where
            a kernel fails.
        fallbacks: where that is counted; None for nowhere.
    """

    def __init__(
        self,
        fallback: SparseClusterAttention | BudgetedClusterAttention,
        fallbacks: Fallbacks | None = None,
    ) -> None:
        self.fallback, self.fallbacks = fallback, fallbacks
        self._num_tokens: Tensor | None = None  # by layer, that a budget pays for

    def attend(self, lookup: Lookup, layer: LayerCache) -> AttendedClusters:
        """Select clusters and attend to their tokens."""
        try:
            return self._attend(lookup, layer)
        except torch.OutOfMemoryError:
            raise
        except Exception:  # whatever a compiler or a driver may raise: plain torch still works
            log.warning("attending without kernels: they failed", exc_info=True)
            if self.fallbacks is not None:
                self.fallbacks.count(Part.KERNELS, Cause.FAILED)
            return self.fallback.attend(lookup, layer)

    def _attend(self, lookup: Lookup, layer: LayerCache) -> AttendedClusters:
        rows, lse, out = lookup.rows.contiguous(), lookup.extra_lse.contiguous(), lookup.dense_out
        dense = None if out is None else State(out.contiguous(), lse)
        threshold, num_wanted = self._limit(lookup)
        selected = select_tokens(
            SelectTokensInputs(
                query=rows,
                centroids=layer.level2.centroids,
                offsets=layer.level2.offsets,
                threshold=threshold,
                num_wanted=num_wanted,
                dense_lse=lse,
                anchor_keys=layer.keys[:, :0],  # anchors are in `extra_lse`
                num_tokens=layer.num_tokens - layer.num_anchors,
                group=lookup.group,
                aggregation=self.fallback.config.aggregation,
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
                dense_state=dense or empty_state(rows),
                scale=lookup.scale,
                softcap=lookup.softcap,
            )
        )
        attended = AttendedTokens(selected.tokens, selected.counts)
        selection = DeviceSelection(attended, layer.level2.num_centroids)
        return AttendedClusters(state, selection, is_joint=dense is not None)

    def _limit(self, lookup: Lookup) -> tuple[Tensor | None, Tensor | None]:
        """The threshold, or the number of tokens, that the fallback would keep to."""
        device = lookup.rows.device
        if isinstance(self.fallback, SparseClusterAttention):
            return torch.full((1,), self.fallback.thresholds.level2, device=device), None
        if self._num_tokens is None:  # of all layers at once, as each copy takes its time
            wanted = torch.tensor(self.fallback.num_tokens, dtype=torch.int32)
            self._num_tokens = wanted.to(device)
        return None, self._num_tokens[lookup.layer_index, None]


def sparse_attention_for(
    document: DocumentCache, *, kernels: bool = True, fallbacks: Fallbacks | None = None
) -> Callable[[Thresholds], ClusterAttention]:
    """Choose how thresholds are applied to a document: in kernels if it is on a GPU.

    Args:
        kernels: whether Triton kernels may be used at all.
        fallbacks: where it is counted if they are not used; None for nowhere.
    Returns: from thresholds to the attention that applies them.
    """
    in_kernels = _in_kernels(document, kernels, fallbacks)

    def attention(thresholds: Thresholds) -> ClusterAttention:
        if thresholds.reads_all:
            return FullClusterAttention()
        sparse = SparseClusterAttention(thresholds, document.lookup)
        return ClusterAttentionOnGpu(sparse, fallbacks) if in_kernels else sparse

    return attention


def budgeted_attention_for(
    document: DocumentCache,
    num_vectors: tuple[int, ...],
    thresholds: Thresholds,
    *,
    kernels: bool = True,
    fallbacks: Fallbacks | None = None,
) -> ClusterAttention:
    """Choose how a question's prefill keeps to its budget: in kernels if it is on a GPU.

    Args:
        num_vectors: by layer, what may be read, as `select_best_clusters` counts it.
        thresholds: what calibration found for the budget; level 1 prunes by it, and where it reads
            all, no lookup is needed.
        kernels, fallbacks: as for `sparse_attention_for`, which counts what keeps it from kernels.
    """
    if thresholds.reads_all:
        return FullClusterAttention()
    budgeted = BudgetedClusterAttention(num_vectors, thresholds.level1, document.lookup)
    in_kernels = _in_kernels(document, kernels)
    return ClusterAttentionOnGpu(budgeted, fallbacks) if in_kernels else budgeted


def _in_kernels(document: DocumentCache, kernels: bool, fallbacks: Fallbacks | None = None) -> bool:
    """Whether a document's questions are prefilled in kernels; why not is logged and counted."""
    if not kernels or not on_gpu(document):
        return False
    if (reason := why_without_kernels(document)) is not None:
        log.info("attending without kernels: %s", reason)
        if fallbacks is not None:
            fallbacks.count(Part.KERNELS, Cause.UNSUPPORTED)
    return reason is None


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
