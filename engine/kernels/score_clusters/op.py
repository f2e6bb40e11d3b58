"""Contract of `log_cluster_scores`."""

from torch import Tensor

from common.errors import ShapeError
from engine.kernels.score_clusters.reference import log_cluster_scores_reference


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
