"""K-means in Triton, on a GPU: all heads of a layer at once, and no scores in memory."""

from engine.kernels.kmeans.member_means import member_means
from engine.kernels.kmeans.nearest_centroids import nearest_centroids
from precompute.clustering.base import KMeansConfig, Lloyd


def build(config: KMeansConfig) -> Lloyd:
    """Build the back end."""
    return Lloyd(config, nearest_centroids, member_means)
