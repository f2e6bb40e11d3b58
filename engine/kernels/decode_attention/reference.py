"""`decode_attention` in plain torch, by its definition: head by head, over the keys it sees."""

from typing import NamedTuple

import torch
from torch import Tensor

from engine.kernels.attend_keys.reference import attend_keys_reference, scores_reference
from engine.kernels.decoding import QuestionKeys, ResidentLayer, Scoring
from engine.kernels.score_clusters import aggregate, log_cluster_scores
from engine.kernels.state import State
from engine.kernels.survey.reference import near_keys


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
