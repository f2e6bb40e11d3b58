"""Centroid lookup: how much attention each cluster's average key would get."""

from collections.abc import Callable

import torch
from torch import Tensor

from common.errors import InvalidInput, ShapeError
from engine.kernels.shared.attend_keys import scores_reference


def _mean(log_scores: Tensor) -> Tensor:
    """The paper's: the mean over all rows."""
    rows = log_scores.shape[1] * log_scores.shape[2]
    return log_scores.flatten(1, 2).logsumexp(dim=1) - torch.tensor(float(rows)).log()


def _max_group_mean(log_scores: Tensor) -> Tensor:
    """The maximum over tokens of the mean over the group's heads."""
    group = torch.tensor(float(log_scores.shape[1])).log()
    return (log_scores.logsumexp(dim=1) - group).amax(dim=1)


def _max(log_scores: Tensor) -> Tensor:
    """The maximum over all rows."""
    return log_scores.amax(dim=(1, 2))


# From log scores (kv_heads, group, tokens, clusters) to (kv_heads, clusters).
AGGREGATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": _mean,
    "max_group_mean": _max_group_mean,
    "max": _max,
}


def aggregate(log_scores: Tensor, group: int, how: str) -> Tensor:
    """Let the rows of a GQA group and of a block of tokens vote on each cluster.

    Args:
        log_scores: (kv_heads, group x tokens, clusters), log S.
        group: query heads per KV head.
        how: a name of `AGGREGATIONS`.
    Returns: (kv_heads, clusters).
    Raises: InvalidInput for an unknown name.
    """
    if how not in AGGREGATIONS:
        raise InvalidInput(f"Aggregation '{how}' is none of {', '.join(AGGREGATIONS)}.")
    heads, rows, clusters = log_scores.shape
    return AGGREGATIONS[how](log_scores.reshape(heads, group, rows // group, clusters))


def log_cluster_scores(
    query: Tensor,
    centroids: Tensor,
    sizes: Tensor,
    *,
    scale: float,
    softcap: float | None = None,
    extra_lse: Tensor | None = None,
) -> Tensor:
    """Log of S_i = exp(s q.C_i) / (sum_j N_j exp(s q.C_j) + E): a mean key's share of attention.

    Args:
        query: (kv_heads, rows, head_dim).
        centroids: (kv_heads, num_clusters, head_dim), means of unnormalised member keys.
        sizes: (kv_heads, num_clusters), members N_j; an empty cluster has 0 and scores -inf.
        scale, softcap: the model's own.
        extra_lse: log of E (kv_heads, rows), fp32: the mass of what is attended anyway (sinks,
            tail, the question) or of pruned clusters; None for the paper's form without E.
    Returns: log S (kv_heads, rows, num_clusters) in fp32.
    Raises: ShapeError if heads, head_dim or sizes do not fit.
    Source: Squeezed Attention, equations 1 to 3 (E is this project's).
    """
    if centroids.shape[0] != query.shape[0] or centroids.shape[2] != query.shape[2]:
        raise ShapeError(
            f"Query {tuple(query.shape)} and centroids {tuple(centroids.shape)} do not fit."
        )
    if sizes.shape != centroids.shape[:2]:
        raise ShapeError(f"{tuple(sizes.shape)} sizes for {tuple(centroids.shape[:2])} clusters.")
    return log_cluster_scores_reference(
        query, centroids, sizes, scale=scale, softcap=softcap, extra_lse=extra_lse
    )


def log_cluster_scores_reference(
    query: Tensor,
    centroids: Tensor,
    sizes: Tensor,
    *,
    scale: float,
    softcap: float | None,
    extra_lse: Tensor | None,
) -> Tensor:
    """See `log_cluster_scores`."""
    scores = scores_reference(query, centroids, scale=scale, softcap=softcap)  # (heads, rows, K)
    log_sizes = sizes.to(torch.float32).log()[:, None, :]  # -inf for empty clusters
    mass = torch.logsumexp(scores + log_sizes, dim=-1)  # (heads, rows)
    if extra_lse is not None:
        mass = torch.logaddexp(mass, extra_lse)
    log_shares = scores - mass[..., None]
    return log_shares.masked_fill(torch.isneginf(log_sizes), -torch.inf)
