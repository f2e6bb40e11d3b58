"""`log_cluster_scores` in plain torch."""

import torch
from torch import Tensor

from engine.kernels.attend_keys.reference import scores_reference


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
