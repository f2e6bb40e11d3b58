"""K-means in batched torch, on any device: all heads of a layer at once."""

from torch import Tensor

from engine.kernels.kmeans.member_means import member_means_reference
from engine.kernels.kmeans.nearest_centroids import nearest_centroids_reference
from precompute.clustering.base import KMeansConfig, Lloyd


def build(config: KMeansConfig) -> "TorchKMeans":
    """Build the back end."""
    return TorchKMeans(config)


class TorchKMeans(Lloyd):
    """Lloyd's algorithm, in fp32 whatever the points are stored in."""

    def __init__(self, config: KMeansConfig) -> None:
        super().__init__(config, nearest_centroids_reference, member_means_reference)

    def labels(self, points: Tensor, weights: Tensor, num_clusters: int) -> Tensor:
        """See `KMeans.labels`."""
        return super().labels(points.float(), weights, num_clusters)
