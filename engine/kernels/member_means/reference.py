"""`member_means` in plain torch."""

import torch
from torch import Tensor


def member_means_reference(
    points: Tensor, weights: Tensor, labels: Tensor, num_clusters: int
) -> Tensor:
    """See `member_means`."""
    heads, _, head_dim = points.shape
    where = labels[..., None].expand(-1, -1, head_dim)
    sums = torch.zeros(heads, num_clusters, head_dim, device=points.device)
    sums.scatter_add_(1, where, points.float() * weights[..., None])
    mass = torch.zeros(heads, num_clusters, device=points.device).scatter_add_(1, labels, weights)
    return sums / mass.clamp(min=1e-20)[..., None]
