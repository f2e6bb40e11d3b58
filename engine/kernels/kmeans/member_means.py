"""Weighted means of clusters: the other half of K-means."""

import torch
from torch import Tensor

from engine.kernels.shared.checks import check_contiguous, check_dims


def member_means(points: Tensor, weights: Tensor, labels: Tensor, num_clusters: int) -> Tensor:
    """Return the weighted mean of the members of each cluster.

    Sums run in the order of the points, so that equal calls give equal means.

    Args:
        points: (heads, points, head_dim), contiguous.
        weights: (heads, points) fp32, non-negative, contiguous.
        labels: (heads, points) int64, contiguous: each point's cluster, in [0, num_clusters).
        num_clusters: clusters of each head.
    Returns: (heads, num_clusters, head_dim) fp32; zeros for a cluster without weight.
    Raises: ShapeError if tensors do not fit together or are strided.
    Source: Lloyd's algorithm.
    """
    shape = check_dims("points", points)
    check_contiguous("points", points, shape, points.dtype, points.device)
    check_contiguous("weights", weights, shape[:2], torch.float32, points.device)
    check_contiguous("labels", labels, shape[:2], torch.int64, points.device)
    if points.is_cuda:
        from engine.kernels.kmeans.triton.member_means import member_means_triton

        return member_means_triton(points, weights, labels, num_clusters)
    return member_means_reference(points, weights, labels, num_clusters)


def member_means_reference(
    points: Tensor, weights: Tensor, labels: Tensor, num_clusters: int
) -> Tensor:
    """Compute `member_means` in torch.

    Args: as `member_means`; nothing is checked.
    Returns: as `member_means`.
    """
    heads, _, head_dim = points.shape
    index = labels[..., None].expand(-1, -1, head_dim)
    sums = torch.zeros(heads, num_clusters, head_dim, device=points.device)
    sums.scatter_add_(1, index, points.float() * weights[..., None])
    mass = torch.zeros(heads, num_clusters, device=points.device).scatter_add_(1, labels, weights)
    return sums / mass.clamp(min=1e-20)[..., None]
