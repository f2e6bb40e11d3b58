"""K-means in Triton, on a GPU: all heads of a layer at once, and no scores in memory."""

from engine.kernels.member_means.kernel import member_means_triton
from engine.kernels.nearest_centroids.kernel import nearest_centroids_triton
from precompute.clustering.base import KMeansConfig, Lloyd


def build(config: KMeansConfig) -> Lloyd:
    """Build the back end."""
    return Lloyd(config, nearest_centroids_triton, member_means_triton)
