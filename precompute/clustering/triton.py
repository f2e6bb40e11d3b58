"""K-means in Triton, on a GPU: all heads of a layer at once, and no scores in memory."""

from engine.kernels.kmeans.triton.member_means import member_means_triton
from engine.kernels.kmeans.triton.nearest_centroids import nearest_centroids_triton
from precompute.clustering.base import KMeansConfig, Lloyd


def build(config: KMeansConfig) -> Lloyd:
    """Build the back end."""
    return Lloyd(config, nearest_centroids_triton, member_means_triton)
