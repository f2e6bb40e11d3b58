"""Weighted means of clusters: the other half of K-means."""

import torch
from torch import Tensor

from common.errors import ShapeError


def member_means(points: Tensor, weights: Tensor, labels: Tensor, num_clusters: int) -> Tensor:
    """Means of the members of each cluster, in fp32; zeros for a cluster without weight.

    Sums run in the order of the points, so that equal calls give equal means.

    Args:
        points: (heads, points, head_dim), contiguous.
        weights: (heads, points) fp32, non-negative, contiguous.
        labels: (heads, points) int64 in [0, num_clusters).
    Returns: (heads, num_clusters, head_dim) fp32.
    Raises: ShapeError if the shapes do not fit.
    """
    if weights.shape != points.shape[:2] or labels.shape != points.shape[:2]:
        raise ShapeError(
            f"Weights {tuple(weights.shape)}, labels {tuple(labels.shape)} and points "
            f"{tuple(points.shape)} do not fit together."
        )
    if points.is_cuda:
        from engine.kernels.kmeans.triton.member_means import member_means_triton

        return member_means_triton(points, weights, labels, num_clusters)
    return member_means_reference(points, weights, labels, num_clusters)


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
