"""Lookup for a block of question tokens: the tokens of the clusters that they vote for."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from common.errors import ShapeError
from engine.kernels.shared.attend_keys import scores_reference
from engine.kernels.shared.score_clusters import aggregate, log_cluster_scores


class Chosen(NamedTuple):
    """Tokens to attend to.

    Attributes:
        tokens: (kv_heads, near + clustered tokens) int32, the first `counts` of a head are indices
            into the near tokens and the clustered ones behind them, ascending; what is behind the
            first `counts` means nothing.
        counts: (kv_heads,) int32.
        votes: aggregated log scores (kv_heads, clusters) fp32; -inf for an empty cluster.
    """

    tokens: Tensor
    counts: Tensor
    votes: Tensor


def choose_tokens(
    query: Tensor,
    centroids: Tensor,
    offsets: Tensor,
    threshold: Tensor,
    extra_lse: Tensor,
    near: Tensor,
    *,
    num_tokens: int,
    group: int,
    how: str,
    scale: float,
    softcap: float | None = None,
) -> Chosen:
    """List the near tokens and those of the clusters whose aggregated score reaches a threshold.

    With `attend_tokens` this is a question's prefill over a layer's retrieval heads: `near` are the
    anchors, `layer.keys[:, : layer.num_anchors]`, so that rows of `layer.keys` are listed, and
    `extra_lse` is of the question's attention to itself, which is `around` there. On a GPU nothing
    waits for the host: the counts stay there.

    Args:
        query: (kv_heads, group x tokens, head_dim), contiguous, at least one row.
        centroids: (kv_heads, clusters, head_dim), contiguous, at least one.
        offsets: (kv_heads, clusters + 1) int32, run j of clustered tokens is offsets[j] to
            offsets[j + 1]; a run may be empty.
        threshold: log score, fp32 of one element on the query's device.
        extra_lse: log mass of what else is attended (kv_heads, group x tokens), fp32.
        near: keys that are attended anyway (kv_heads, near, head_dim), their rows contiguous; they
            count in the scores' denominator, and are listed as 0, 1, ... before the clustered ones.
        num_tokens: clustered tokens of a head.
        group: query heads per KV head.
        how: a name of `score_clusters.AGGREGATIONS`.
        scale, softcap: the model's own.
    Raises: ShapeError if the shapes do not fit; InvalidInput for an unknown aggregation.
    Source: Squeezed Attention, equations 1 to 3 and section 4.1.
    """
    heads, rows, head_dim = query.shape
    if centroids.shape[0] != heads or centroids.shape[2] != head_dim or rows % group:
        raise ShapeError(
            f"Query {tuple(query.shape)} of groups of {group} and centroids "
            f"{tuple(centroids.shape)} do not fit together."
        )
    if offsets.shape != (heads, centroids.shape[1] + 1) or extra_lse.shape != query.shape[:2]:
        raise ShapeError(
            f"{tuple(offsets.shape)} offsets for {tuple(centroids.shape[:2])} clusters, or "
            f"{tuple(extra_lse.shape)} masses for {tuple(query.shape[:2])} rows."
        )
    if near.shape[0] != heads or near.shape[2] != head_dim:
        raise ShapeError(
            f"Query {tuple(query.shape)} and near keys {tuple(near.shape)} do not fit."
        )
    choose = _implementation(query)
    return choose(
        query,
        centroids,
        offsets,
        threshold,
        extra_lse,
        near,
        num_tokens=num_tokens,
        group=group,
        how=how,
        scale=scale,
        softcap=softcap,
    )


def _implementation(query: Tensor) -> Callable[..., Chosen]:
    if not query.is_cuda:
        return choose_tokens_reference
    from engine.kernels.prefill.triton.select_tokens.launch import choose_tokens_triton

    return choose_tokens_triton


def choose_tokens_reference(
    query: Tensor,
    centroids: Tensor,
    offsets: Tensor,
    threshold: Tensor,
    extra_lse: Tensor,
    near: Tensor,
    *,
    num_tokens: int,
    group: int,
    how: str,
    scale: float,
    softcap: float | None,
) -> Chosen:
    """See `choose_tokens`."""
    sizes, num_near = offsets.diff(dim=1), near.shape[1]
    beside = scores_reference(query, near, scale=scale, softcap=softcap).logsumexp(dim=-1)
    mass = torch.logaddexp(extra_lse, beside)
    scores = log_cluster_scores(
        query, centroids, sizes, scale=scale, softcap=softcap, extra_lse=mass
    )
    votes = aggregate(scores, group, how)
    tokens = torch.arange(num_near + num_tokens, dtype=torch.int32, device=query.device)
    tokens = tokens.repeat(len(query), 1)
    counts = torch.zeros(len(query), dtype=torch.int32, device=query.device)
    for head, keep in enumerate(votes >= threshold):
        listed = torch.repeat_interleave(keep, sizes[head].long()).nonzero()[:, 0]
        counts[head] = num_near + len(listed)
        tokens[head, num_near : counts[head]] = num_near + listed
    return Chosen(tokens, counts, votes)
