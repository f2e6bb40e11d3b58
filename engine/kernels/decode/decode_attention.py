"""Attention of one token a question over a resident document, without waiting for the host."""

from typing import NamedTuple

import torch
from torch import Tensor

from common.errors import ShapeError
from engine.kernels.decode.attend_runs import attend_runs
from engine.kernels.decode.combine_splits import merge_splits
from engine.kernels.decode.inputs import QuestionKeys, ResidentLayer, Scoring
from engine.kernels.decode.score_centroids import near_keys, survey
from engine.kernels.decode.score_children import descend
from engine.kernels.decode.select_runs import select_runs
from engine.kernels.decode.step_sizes import Sizes, sizes_of
from engine.kernels.decode.workspace import Workspace
from engine.kernels.shared.attend_keys import attend_keys_reference, scores_reference
from engine.kernels.shared.score_clusters import aggregate, log_cluster_scores
from engine.kernels.shared.sizes import HEAD_DIMS, MAX_ELEMENTS
from engine.kernels.shared.state import State

MAX_BATCH = 16  # questions of a step; more are asked in several


def decode_attention(
    query: Tensor,
    layer: ResidentLayer,
    question: QuestionKeys,
    thresholds: Tensor,
    work: Workspace,
    scoring: Scoring,
) -> Tensor:
    """Attend with one token of each question: to itself and its question, and to the document.

    Retrieval heads look centroids up and attend exactly to the clusters that they keep, and to the
    anchors; streaming heads attend to what they keep of the document. Where `supports` holds it is
    four launches, five with two levels, that never wait for the host: shapes and addresses are
    fixed, counts stay on the device, so a CUDA graph can hold it. Everywhere else it is the
    reference, which does wait. Results do not depend on timing: the same inputs give the same bits.

    Args:
        query: (batch, num_heads, head_dim), contiguous, after RoPE; head h belongs to KV head
            h // group. All questions are about this document.
        layer: the document's keys of this layer; the launch right before does not write centroids
            and offsets (`engine.kernels.shared.overlap`).
        question: the questions' own keys, the token's included.
        thresholds: (2, batch) fp32 in nats, contiguous, of level 1 and level 2: a cluster is kept
            if the log of its share of attention, as the group votes, reaches it.
        work: buffers of `allocate(sizes_of(...))`; whoever shares them shares the results. What a
            question reads is added to its tally.
        scoring: how keys are scored.
    Returns: work.out, (batch, num_heads, head_dim); work.lse holds the log-sum-exp in nats of
        everything that was attended to.
    Raises: ShapeError if the tensors do not fit together or lie in another way than stated.
    Source: Squeezed Attention, sections 4 and 6.3; Flash-Decoding.
    """
    _check(query, layer, question, thresholds, work)
    if not (query.is_cuda and supports(work.sizes)):
        found = decode_attention_reference(query, layer, question, thresholds, scoring)
        work.out.copy_(found.out)
        work.lse.copy_(found.lse)
        work.tally.add_(found.read)
        return work.out
    survey(query, layer, question, work, scoring)
    if work.sizes.retrieval and work.sizes.num_clusters:
        if layer.upper is not None:
            descend(query, layer, thresholds, work, scoring)
        select_runs(layer, thresholds, work, scoring)
        attend_runs(query, layer, work, scoring)
    merge_splits(work)
    return work.out


def supports(sizes: Sizes) -> bool:
    """Whether the kernels can take a step of these sizes on a GPU: widths of powers of two."""
    fits = (sizes.num_anchors + sizes.num_keys) * sizes.head_dim < MAX_ELEMENTS
    return sizes.head_dim in HEAD_DIMS and sizes.batch <= MAX_BATCH and fits


def _check(
    query: Tensor,
    layer: ResidentLayer,
    question: QuestionKeys,
    thresholds: Tensor,
    work: Workspace,
) -> None:
    s = work.sizes
    batch, num_heads, _ = query.shape
    if sizes_of(layer, question, num_heads) != s or query.shape != work.out.shape:
        raise ShapeError(
            f"Query {tuple(query.shape)}, keys {tuple(layer.keys.shape)} and question keys "
            f"{tuple(question.keys.shape)} do not fit a workspace for {s}."
        )
    streaming = 0 if layer.streaming is None else len(layer.streaming.keys)
    if num_heads % s.kv_heads or s.retrieval + streaming != s.kv_heads:
        raise ShapeError(
            f"{num_heads} heads over {s.kv_heads} KV heads, of which {s.retrieval} are retrieval "
            f"and {streaming} streaming heads."
        )
    if thresholds.shape != (2, batch) or question.lengths.shape != (batch,):
        raise ShapeError(
            f"Thresholds {tuple(thresholds.shape)} or lengths {tuple(question.lengths.shape)} for "
            f"{batch} questions."
        )
    _check_layout(query, layer, question, thresholds)


def _check_layout(
    query: Tensor, layer: ResidentLayer, question: QuestionKeys, thresholds: Tensor
) -> None:
    pairs = [(layer.keys, layer.values), (question.keys, question.values)]
    levels = [(layer.centroids, layer.offsets)]
    dense = [query, thresholds, question.keys, question.lengths]
    if layer.streaming is not None:
        pairs.append((layer.streaming.keys, layer.streaming.values))
        dense += [layer.streaming.keys, layer.streaming.log_weights]
    if layer.upper is not None:
        upper = layer.upper
        levels += [(upper.centroids, upper.offsets), (upper.centroids, upper.token_offsets)]
        dense.append(upper.parents)
        if upper.parents.shape != layer.centroids.shape[:2] or upper.parents.dtype != torch.int32:
            raise ShapeError(
                f"{tuple(upper.parents.shape)} parents of {upper.parents.dtype} for "
                f"{layer.centroids.shape[1]} clusters."
            )
    dense += [tensor for level in levels for tensor in level]
    if any(k.stride() != v.stride() or k.shape != v.shape for k, v in pairs):
        raise ShapeError("Keys lie unlike their values.")
    rows_apart = layer.keys.stride()[1:] != (query.shape[2], 1)
    if rows_apart or not all(tensor.is_contiguous() for tensor in dense):
        raise ShapeError("Queries, keys, centroids or offsets are strided.")
    for centroids, offsets in levels:
        heads, clusters, _ = centroids.shape
        if offsets.shape != (heads, clusters + 1) or offsets.dtype != torch.int32:
            raise ShapeError(
                f"{tuple(offsets.shape)} offsets of {offsets.dtype} for {clusters} clusters."
            )


class Attended(NamedTuple):
    """What a step found.

    Attributes:
        out: (batch, num_heads, head_dim) in the query's dtype.
        lse: log-sum-exp in nats (batch, num_heads), fp32.
        kept: (batch, retrieval, clusters), whether a question kept a level-2 cluster.
        read: (2, retrieval, batch) int64: clustered tokens, and level-2 centroids of hierarchical
            lookup.
    """

    out: Tensor
    lse: Tensor
    kept: Tensor
    read: Tensor


def decode_attention_reference(
    query: Tensor,
    layer: ResidentLayer,
    question: QuestionKeys,
    thresholds: Tensor,
    scoring: Scoring,
) -> Attended:
    """See `decode_attention`."""
    batch, num_heads, head_dim = query.shape
    kv_heads, retrieval = question.keys.shape[1], len(layer.keys)
    rows = query.reshape(batch, kv_heads, num_heads // kv_heads, head_dim)
    out = torch.zeros(rows.shape, device=query.device)
    lse = torch.zeros(rows.shape[:3], device=query.device)
    kept = torch.zeros(batch, *layer.offsets.diff().shape, dtype=torch.bool, device=query.device)
    read = torch.zeros(2, retrieval, batch, dtype=torch.int64, device=query.device)
    for asked in range(batch):
        for head in range(kv_heads):
            keys, values, log_weights = near_keys(layer, question, asked, head)
            one = rows[asked, head][None]
            if head < retrieval:
                near = _attend(one, keys, values, log_weights, scoring).lse
                limits = thresholds[:, asked]
                keep, centroids = keep_clusters(one, near, layer, head, limits, scoring)
                kept[asked, head] = keep
                chosen = keep.repeat_interleave(layer.offsets[head].diff()).nonzero()[:, 0]
                read[0, head, asked], read[1, head, asked] = len(chosen), centroids
                chosen = chosen + layer.num_anchors
                keys = torch.cat((keys, layer.keys[head, chosen]))
                values = torch.cat((values, layer.values[head, chosen]))
                log_weights = torch.cat((log_weights, log_weights.new_zeros(len(chosen))))
            state = _attend(one, keys, values, log_weights, scoring)
            out[asked, head], lse[asked, head] = state.out[0], state.lse[0]
    return Attended(out.reshape(query.shape).to(query.dtype), lse.flatten(1), kept, read)


def keep_clusters(
    query: Tensor,
    near: Tensor,
    layer: ResidentLayer,
    head: int,
    thresholds: Tensor,
    scoring: Scoring,
) -> tuple[Tensor, int]:
    """Which clusters of one head a token keeps (clusters,), and how many it read below level 1.

    Args:
        query: (1, group, head_dim).
        near: log mass of what is attended anyway (1, group).
        thresholds: (2,).
    """
    one, read = slice(head, head + 1), 0
    sizes = layer.offsets[one].diff()
    if layer.upper is not None:
        upper = layer.upper
        sizes1, children = upper.token_offsets[one].diff(), upper.offsets[head].diff()
        keep = _vote(query, upper.centroids[one], sizes1, near, scoring) >= thresholds[0]
        keep = keep & (sizes1 > 0)
        scores = scores_reference(
            query, upper.centroids[one], scale=scoring.scale, softcap=scoring.softcap
        )
        pruned = (scores + sizes1.log()).masked_fill(keep, -torch.inf).logsumexp(-1)
        near = torch.logaddexp(near, pruned)
        sizes = sizes * keep[0].repeat_interleave(children)
        read = int(children[keep[0]].sum())
    votes = _vote(query, layer.centroids[one], sizes, near, scoring)
    return (votes >= thresholds[1])[0] & (sizes > 0)[0], read


def _vote(
    query: Tensor, centroids: Tensor, sizes: Tensor, near: Tensor, scoring: Scoring
) -> Tensor:
    """Aggregated log shares (1, clusters); -inf for an empty cluster."""
    shares = log_cluster_scores(
        query,
        centroids,
        sizes,
        scale=scoring.scale,
        softcap=scoring.softcap,
        extra_lse=near,
    )
    return aggregate(shares, query.shape[1], scoring.aggregation)


def _attend(
    query: Tensor, keys: Tensor, values: Tensor, log_weights: Tensor, scoring: Scoring
) -> State:
    """Attention of one head's rows (1, group, head_dim) in fp32."""
    return attend_keys_reference(
        query.float(),
        keys[None].float(),
        values[None].float(),
        scale=scoring.scale,
        softcap=scoring.softcap,
        mask=None,
        bias=log_weights,
    )
