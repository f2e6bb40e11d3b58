"""Centroid lookup: how much attention an average key of each cluster would get."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from common.errors import InvalidInput, ShapeError
from engine.kernels.shared.checks import check_dims, check_strided
from engine.kernels.shared.scores import dot_products, scores_reference


def _mean(log_scores: Tensor) -> Tensor:
    """The mean over all rows, as in the paper."""
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


def aggregate(log_scores: Tensor, group: int, aggregation: str) -> Tensor:
    """Aggregate the scores of a GQA group's heads, and of a block of tokens, for each cluster.

    Args:
        log_scores: (kv_heads, group x tokens, clusters), the logarithm of shares.
        group: query heads per KV head.
        aggregation: a name of `AGGREGATIONS`.
    Returns: (kv_heads, clusters), the logarithm of the aggregated shares.
    Raises: InvalidInput for an unknown name; ShapeError if the rows are no multiple of the group.
    """
    check_aggregation(aggregation)
    heads, rows, clusters = check_dims("log_scores", log_scores)
    if rows % group:
        raise ShapeError(f"{rows} rows cannot be those of groups of {group} query heads.")
    return AGGREGATIONS[aggregation](log_scores.reshape(heads, group, rows // group, clusters))


def log_group_scores(
    query: Tensor,
    centroids: Tensor,
    sizes: Tensor,
    *,
    group: int,
    aggregation: str,
    scale: float,
    softcap: float | None = None,
    extra_lse: Tensor | None = None,
) -> Tensor:
    """Score clusters for each token: log of the sum of S_i over the heads of its GQA group.

    For "max" it is the maximum instead of the sum. As `log_cluster_scores` for each head, but
    scores are moved half as often; a share of less than exp(-87) of a head's largest is none.

    Args:
        query: (kv_heads, group x tokens, head_dim), in any layout.
        group: query heads per KV head.
        aggregation: a name of `AGGREGATIONS`.
        centroids, sizes, scale, softcap, extra_lse: as of `log_cluster_scores`; at least one
            cluster.
    Returns: (kv_heads, tokens, num_clusters) in fp32; -inf for empty clusters.
    Raises: InvalidInput for an unknown name; ShapeError if the rows are no multiple of the group,
        or shapes or devices do not fit together.
    Source: Squeezed Attention, equations 1 to 3 (E is this project's).
    """
    check_aggregation(aggregation)
    _check_scored(query, centroids, sizes, extra_lse)
    heads, rows, _ = query.shape
    if rows % group:
        raise ShapeError(f"{rows} rows cannot be those of groups of {group} query heads.")
    is_empty = sizes == 0
    # The largest cluster stands in for empty ones, which would shift what sums are relative to.
    largest = centroids[torch.arange(heads, device=centroids.device), sizes.argmax(dim=1)]
    centroids = torch.where(is_empty[..., None], largest[:, None], centroids)
    if softcap is None:
        scores = dot_products(query, centroids)
    else:
        scores, scale = scores_reference(query, centroids, scale=scale, softcap=softcap), 1.0
    top = scores.amax(dim=-1) * scale  # (heads, rows)
    shares = torch.add(-top[..., None], scores, alpha=scale, out=scores).exp_()
    lse = torch.matmul(shares, sizes.to(torch.float32)[..., None])[..., 0].log() + top
    if extra_lse is not None:
        lse = torch.logaddexp(lse, extra_lse)
    shares.mul_((top - lse).exp()[..., None])
    by_head = shares.view(heads, group, rows // group, -1)
    by_token = by_head.amax(dim=1) if aggregation == "max" else by_head.sum(dim=1)
    return by_token.log_().masked_fill_(is_empty[:, None], -torch.inf)


def aggregate_blocks(
    by_token: Tensor, group: int, owners: Tensor, num_blocks: int, aggregation: str
) -> Tensor:
    """Aggregate as `aggregate` does, several blocks of tokens at once.

    Args:
        by_token: (kv_heads, tokens, clusters) from `log_group_scores`, the tokens of all blocks
            side by side.
        group, aggregation: as of `log_group_scores`.
        owners: each token's block (tokens,) int64, none without a token.
        num_blocks: how many there are.
    Returns: (num_blocks, kv_heads, clusters), the logarithm of the aggregated shares.
    Raises: InvalidInput for an unknown name.
    """
    check_aggregation(aggregation)
    heads, _, clusters = check_dims("by_token", by_token)
    where = owners[None, :, None].expand_as(by_token)
    greatest = by_token.new_full((heads, num_blocks, clusters), -torch.inf)
    greatest = greatest.scatter_reduce(1, where, by_token, "amax")
    if aggregation == "max_group_mean":
        greatest = greatest - math.log(group)
    if aggregation == "mean":
        lengths = torch.bincount(owners, minlength=num_blocks)[None, :, None]
        finite = greatest.masked_fill(torch.isneginf(greatest), 0.0)
        shares = (by_token - finite.gather(1, where)).exp()
        total = torch.zeros_like(greatest).scatter_add_(1, where, shares)
        greatest = total.log() + finite - (group * lengths).log()
    return greatest.transpose(0, 1)


def check_aggregation(name: str) -> None:
    """Check the name of an aggregation.

    Raises: InvalidInput if it is none of `AGGREGATIONS`.
    """
    if name not in AGGREGATIONS:
        raise InvalidInput(f"Aggregation '{name}' is none of {', '.join(AGGREGATIONS)}.")


def log_cluster_scores(
    query: Tensor,
    centroids: Tensor,
    sizes: Tensor,
    *,
    scale: float,
    softcap: float | None = None,
    extra_lse: Tensor | None = None,
) -> Tensor:
    """Score clusters: log of S_i = exp(s q.C_i) / (sum_j N_j exp(s q.C_j) + E).

    S_i is the share of attention that a key equal to the centroid C_i would get.

    Args:
        query: (kv_heads, rows, head_dim), in any layout.
        centroids: (kv_heads, num_clusters, head_dim), means of unnormalised member keys; they are
            compared in fp32, in whatever dtype they are stored.
        sizes: (kv_heads, num_clusters), members N_j; an empty cluster has 0 and scores -inf.
        scale, softcap: the model's own.
        extra_lse: log of E in nats (kv_heads, rows), fp32: the mass of the keys that are attended
            to without a lookup (sinks, tail, the question), or of pruned clusters; None for the
            paper's form without E.
    Returns: log S (kv_heads, rows, num_clusters) in fp32.
    Raises: ShapeError if shapes or devices do not fit together.
    Source: Squeezed Attention, equations 1 to 3 (E is this project's).
    """
    _check_scored(query, centroids, sizes, extra_lse)
    return log_cluster_scores_reference(
        query, centroids, sizes, scale=scale, softcap=softcap, extra_lse=extra_lse
    )


def _check_scored(
    query: Tensor, centroids: Tensor, sizes: Tensor, extra_lse: Tensor | None
) -> None:
    heads, rows, head_dim = check_dims("query", query)
    if check_dims("centroids", centroids) != (heads, centroids.shape[1], head_dim):
        raise ShapeError(
            f"Query {tuple(query.shape)} and centroids {tuple(centroids.shape)} do not fit."
        )
    if sizes.shape != centroids.shape[:2]:
        raise ShapeError(f"{tuple(sizes.shape)} sizes for {tuple(centroids.shape[:2])} clusters.")
    if not query.device == centroids.device == sizes.device:
        raise ShapeError(
            f"Query, centroids and sizes are on {query.device}, {centroids.device}, {sizes.device}."
        )
    if extra_lse is not None:
        check_strided("extra_lse", extra_lse, (heads, rows), torch.float32, query.device)


def log_cluster_scores_reference(
    query: Tensor,
    centroids: Tensor,
    sizes: Tensor,
    *,
    scale: float,
    softcap: float | None,
    extra_lse: Tensor | None,
) -> Tensor:
    """Compute `log_cluster_scores` in torch.

    Args: as `log_cluster_scores`; nothing is checked.
    Returns: as `log_cluster_scores`.
    """
    scores = scores_reference(query, centroids, scale=scale, softcap=softcap)
    log_sizes = sizes.to(torch.float32).log()[:, None, :]  # -inf for empty clusters
    lse = torch.logsumexp(scores + log_sizes, dim=-1)  # (heads, rows)
    if extra_lse is not None:
        lse = torch.logaddexp(lse, extra_lse)
    # In place: a long question has millions of scores, and a CPU's time goes into moving them.
    return scores.sub_(lse[..., None]).masked_fill_(torch.isneginf(log_sizes), -torch.inf)
