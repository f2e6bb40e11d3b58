"""Contract of `nearest_centroids`."""

from torch import Tensor

from common.errors import ShapeError
from engine.kernels.nearest_centroids.reference import nearest_centroids_reference


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
        from engine.kernels.nearest_centroids.kernel import nearest_centroids_triton

        return nearest_centroids_triton(points, centroids)
    return nearest_centroids_reference(points, centroids)
