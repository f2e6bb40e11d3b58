"""Contract of `member_means`."""

from torch import Tensor

from common.errors import ShapeError
from engine.kernels.member_means.reference import member_means_reference


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
        from engine.kernels.member_means.kernel import member_means_triton

        return member_means_triton(points, weights, labels, num_clusters)
    return member_means_reference(points, weights, labels, num_clusters)
