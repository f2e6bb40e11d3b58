"""Assignment of points to the nearest of many centroids: the costly half of K-means."""

import torch
from torch import Tensor

from common.errors import ShapeError


def nearest_centroids(points: Tensor, centroids: Tensor) -> Tensor:
    """Find the centroid of least Euclidean distance, the first among equals.

    On a GPU the scores of points and centroids are never written to memory.

    Args:
        points: (heads, points, head_dim), contiguous.
        centroids: (heads, clusters, head_dim), at least one, contiguous, in the points' dtype;
            products are formed in it and summed in fp32.
    Returns: (heads, points) int64.
    Raises: ShapeError if the shapes or dtypes do not fit.
    """
    fits = points.shape[0] == centroids.shape[0] and points.shape[2] == centroids.shape[2]
    if not fits or points.dtype != centroids.dtype or centroids.shape[1] == 0:
        raise ShapeError(
            f"Points {tuple(points.shape)} in {points.dtype} and centroids "
            f"{tuple(centroids.shape)} in {centroids.dtype} do not fit together."
        )
    if points.is_cuda:
        from engine.kernels.kmeans.triton.nearest_centroids import nearest_centroids_triton

        return nearest_centroids_triton(points, centroids)
    return nearest_centroids_reference(points, centroids)


# fp32 scores held at a time: on a CPU what its cache holds (2 MiB; 4 times as fast as 256 MiB on
# 16K keys x 812 centroids), on a GPU what fills it.
MAX_SCORES = {"cpu": 1 << 19, "cuda": 1 << 28}


def nearest_centroids_reference(points: Tensor, centroids: Tensor) -> Tensor:
    """See `nearest_centroids`: least |x - c|^2 is greatest x.c - |c|^2 / 2."""
    points, centroids = points.float(), centroids.float()
    heads, num_points, _ = points.shape
    halves = centroids.square().sum(dim=-1)[:, None] / 2  # (heads, 1, clusters)
    turned = centroids.transpose(1, 2)
    block = max(1, MAX_SCORES[points.device.type] // (heads * centroids.shape[1]))
    parts = [
        torch.baddbmm(halves, points[:, at : at + block], turned, beta=-1).max(dim=-1).indices
        for at in range(0, num_points, block)
    ]
    return torch.cat(parts, dim=1)
