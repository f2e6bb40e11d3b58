"""Attention of one token a question over a resident document, without waiting for the host."""

from typing import NamedTuple

import torch
from torch import Tensor

from engine.kernels.decode.attend_runs import attend_runs
from engine.kernels.decode.combine_splits import combine_splits
from engine.kernels.decode.inputs import DecodeInputs, Scoring, StepSizes
from engine.kernels.decode.reference_helpers import dense_keys, sinks_of
from engine.kernels.decode.score_centroids_and_attend_dense import score_centroids_and_attend_dense
from engine.kernels.decode.score_children import score_children
from engine.kernels.decode.select_runs import select_runs
from engine.kernels.decode.validate import validate
from engine.kernels.decode.workspace import Workspace
from engine.kernels.shared.attend_keys import attend_keys_reference
from engine.kernels.shared.merge_states import merge_states_reference
from engine.kernels.shared.score_clusters import aggregate, log_cluster_scores
from engine.kernels.shared.scores import scores_reference
from engine.kernels.shared.sizes import MAX_ELEMENTS, has_kernels
from engine.kernels.shared.state import State

MAX_BATCH = 16  # questions of a step; more of them take several steps


def decode_attention(inputs: DecodeInputs, work: Workspace) -> Tensor:
    """Attend with one token of each question: to its question, itself included, and the document.

    Retrieval heads look up centroids and attend exactly to the clusters that they select, and to
    the anchors; streaming heads attend to their own keys of the document; a layer with a window has
    anchors alone, and attends to those that the window shows. Where `supports` holds on
    a GPU these are four launches, five with two levels, that never wait for the host: shapes and
    addresses are fixed and counts stay on the device, so a CUDA graph can hold them. Everywhere
    else it is the reference, which does wait. Results do not depend on timing: equal inputs give
    equal bits.

    Args:
        inputs: what the step reads. The launch right before does not write centroids and offsets
            (`engine.kernels.shared.overlap`).
        work: buffers of `allocate(sizes_of(...))`; steps that share them share the results. What
            the questions read is added to its `read_counts`.
    Returns: work.out, (batch, num_heads, head_dim); work.lse holds the log-sum-exp in nats over
        everything that was attended to.
    Raises: ShapeError if tensors do not fit together, do not fit the workspace, or lie in memory in
        another way than stated.
    Source: Squeezed Attention, sections 4 and 6.3; Flash-Decoding.
    """
    validate(inputs, work)
    if not (inputs.query.is_cuda and supports(work.sizes)):
        result = decode_attention_reference(inputs)
        work.out.copy_(result.out)
        work.lse.copy_(result.lse)
        work.read_counts.add_(result.read_counts)
        return work.out
    score_centroids_and_attend_dense(inputs, work)
    if work.sizes.retrieval and work.sizes.num_clusters:
        if inputs.layer.upper is not None:
            score_children(inputs, work)
        select_runs(inputs, work)
        attend_runs(inputs, work)
    combine_splits(work)
    return work.out


def supports(sizes: StepSizes) -> bool:
    """Return whether the kernels can take a step on a GPU.

    Args:
        sizes: of the step. Keys must be as wide as `has_kernels` says, one head's keys must be
            countable in 32 bits, and there may be at most `MAX_BATCH` questions.
    """
    fits = (sizes.num_anchors + sizes.num_keys) * sizes.head_dim < MAX_ELEMENTS
    return has_kernels(sizes.head_dim) and sizes.batch <= MAX_BATCH and fits


class DecodeResult(NamedTuple):
    """What a decode step computes.

    Attributes:
        out: (batch, num_heads, head_dim) in the query's dtype.
        lse: log-sum-exp in nats (batch, num_heads), fp32.
        selected: (batch, retrieval, clusters) bool: whether a question selected a level-2 cluster.
        read_counts: (2, retrieval, batch) int64: clustered tokens, and level-2 centroids of
            hierarchical lookup, that each question read.
    """

    out: Tensor
    lse: Tensor
    selected: Tensor
    read_counts: Tensor


def decode_attention_reference(inputs: DecodeInputs) -> DecodeResult:
    """Define `decode_attention` in torch, question by question and head by head.

    Args:
        inputs: what the step reads; nothing is checked.
    Returns: the results of the step, in tensors of their own.
    """
    query, layer = inputs.query, inputs.layer
    batch, num_heads, head_dim = query.shape
    kv_heads, retrieval = inputs.question.keys.shape[1], len(layer.keys)
    rows = query.reshape(batch, kv_heads, num_heads // kv_heads, head_dim)
    out = torch.zeros(rows.shape, device=query.device)
    lse = torch.zeros(rows.shape[:3], device=query.device)
    sizes = layer.offsets.diff()  # (retrieval, clusters)
    selected = torch.zeros(batch, *sizes.shape, dtype=torch.bool, device=query.device)
    counts = torch.zeros(2, retrieval, batch, dtype=torch.int64, device=query.device)
    for question in range(batch):
        for head in range(kv_heads):
            keys, values, log_weights = dense_keys(inputs, question, head)
            group = rows[question, head][None]  # (1, group, head_dim)
            if head < retrieval:
                dense = _attend(inputs, head, group, keys, values, log_weights).lse
                is_selected, centroids_read = _look_up(inputs, question, head, group, dense)
                selected[question, head] = is_selected
                clustered = is_selected.repeat_interleave(sizes[head]).nonzero()[:, 0]
                counts[0, head, question] = len(clustered)
                counts[1, head, question] = centroids_read
                tokens = layer.num_anchors + clustered
                keys = torch.cat((keys, layer.keys[head, tokens]))
                values = torch.cat((values, layer.values[head, tokens]))
                log_weights = torch.cat((log_weights, log_weights.new_zeros(len(tokens))))
            state = _attend(inputs, head, group, keys, values, log_weights)
            out[question, head], lse[question, head] = state.out[0], state.lse[0]
    return DecodeResult(out.reshape(query.shape).to(query.dtype), lse.flatten(1), selected, counts)


def _look_up(
    inputs: DecodeInputs, question: int, head: int, query: Tensor, dense_lse: Tensor
) -> tuple[Tensor, int]:
    """Look up the clusters of one head for one question.

    Args:
        query: (1, group, head_dim).
        dense_lse: log-sum-exp over the dense keys (1, group).
    Returns: whether each level-2 cluster is selected (clusters,), and how many centroids were read
        below level 1.
    """
    layer, scoring = inputs.layer, inputs.scoring
    level1, level2 = inputs.thresholds[:, question]
    this, centroids_read = slice(head, head + 1), 0
    sizes = layer.offsets[this].diff()  # (1, clusters)
    if layer.upper is not None:
        upper = layer.upper
        centroids, children = upper.centroids[this], upper.offsets[head].diff()
        upper_sizes = upper.token_offsets[this].diff()  # (1, level-1 clusters)
        is_selected = _log_shares(query, centroids, upper_sizes, dense_lse, scoring) >= level1
        is_selected = is_selected & (upper_sizes > 0)
        scores = scores_reference(query, centroids, scale=scoring.scale, softcap=scoring.softcap)
        pruned = (scores + upper_sizes.log()).masked_fill(is_selected, -torch.inf).logsumexp(-1)
        dense_lse = torch.logaddexp(dense_lse, pruned)
        sizes = sizes * is_selected[0].repeat_interleave(children)
        centroids_read = int(children[is_selected[0]].sum())
    log_shares = _log_shares(query, layer.centroids[this], sizes, dense_lse, scoring)
    return (log_shares >= level2)[0] & (sizes > 0)[0], centroids_read


def _log_shares(
    query: Tensor, centroids: Tensor, sizes: Tensor, extra_lse: Tensor, scoring: Scoring
) -> Tensor:
    """Logarithms of shares, aggregated over the group (1, clusters); -inf for an empty cluster."""
    log_shares = log_cluster_scores(
        query,
        centroids,
        sizes,
        scale=scoring.scale,
        softcap=scoring.softcap,
        extra_lse=extra_lse,
    )
    return aggregate(log_shares, query.shape[1], scoring.aggregation)


def _attend(
    inputs: DecodeInputs,
    head: int,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    log_weights: Tensor,
) -> State:
    """Attention of one KV head's rows (1, group, head_dim) in fp32; sinks take their part."""
    scoring = inputs.scoring
    state = attend_keys_reference(
        query.float(),
        keys[None].float(),
        values[None].float(),
        scale=scoring.scale,
        softcap=scoring.softcap,
        mask=None,
        bias=log_weights,
    )
    if inputs.sink_logits is None:
        return state
    sinks = sinks_of(inputs.sink_logits, head, query.shape[1])[None]
    return merge_states_reference(state, State(torch.zeros_like(state.out), sinks))
