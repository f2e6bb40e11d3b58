"""Assignment of points to the nearest of many centroids: the costly half of K-means."""

import torch
from torch import Tensor

from common.errors import ShapeError
from engine.kernels.shared.checks import check_contiguous, check_dims

# fp32 scores that the reference holds at a time: on a CPU what its cache holds (2 MiB; 4 times as
# fast as 256 MiB on 16K keys x 812 centroids), on a GPU what fills it.
MAX_SCORES = {"cpu": 1 << 19, "cuda": 1 << 28}


def nearest_centroids(points: Tensor, centroids: Tensor) -> Tensor:
    """Find the centroid of least Euclidean distance for each point, the first among equals.

    On a GPU the scores of points and centroids are never written to memory.

    Args:
        points: (heads, points, head_dim), contiguous.
        centroids: (heads, clusters, head_dim), at least one, contiguous, in the points' dtype;
            products are formed in it and summed in fp32.
    Returns: (heads, points) int64, indices of centroids.
    Raises: ShapeError if tensors do not fit together or are strided.
    Source: Lloyd's algorithm.
    """
    heads, num_points, head_dim = check_dims("points", points)
    dtype, device = points.dtype, points.device
    check_contiguous("points", points, (heads, num_points, head_dim), dtype, device)
    _, clusters, _ = check_dims("centroids", centroids)
    check_contiguous("centroids", centroids, (heads, clusters, head_dim), dtype, device)
    if clusters == 0:
        raise ShapeError("There are no centroids.")
    if points.is_cuda:
        from engine.kernels.kmeans.triton.nearest_centroids import nearest_centroids_triton

        return nearest_centroids_triton(points, centroids)
    return nearest_centroids_reference(points, centroids)


def nearest_centroids_reference(points: Tensor, centroids: Tensor) -> Tensor:
    """Compute `nearest_centroids` in torch: least |x - c|^2 is greatest x.c - |c|^2 / 2.

    Args: as `nearest_centroids`; nothing is checked.
    Returns: as `nearest_centroids`.
    """
    points, centroids = points.float(), centroids.float()
    heads, num_points, _ = points.shape
    half_norms = centroids.square().sum(dim=-1)[:, None] / 2  # (heads, 1, clusters)
    transposed = centroids.transpose(1, 2)  # (heads, head_dim, clusters)
    block = max(1, MAX_SCORES[points.device.type] // (heads * centroids.shape[1]))
    parts = [
        torch.baddbmm(half_norms, points[:, start : start + block], transposed, beta=-1)
        .max(dim=-1)
        .indices
        for start in range(0, num_points, block)
    ]
    return torch.cat(parts, dim=1)
