"""K-means by FAISS, head by head; on GPUs where its build has them."""

from typing import Any

import faiss
import torch
from torch import Tensor

from precompute.clustering.base import KMeansConfig, first_members


def build(config: KMeansConfig) -> "FaissKMeans":
    """Build the back end."""
    return FaissKMeans(config)


class FaissKMeans:
    """Lloyd's algorithm in Euclidean distance; FAISS splits large clusters to fill empty ones."""

    def __init__(self, config: KMeansConfig) -> None:
        self._config = config

    def labels(self, points: Tensor, weights: Tensor, num_clusters: int) -> Tensor:
        """See `KMeans.labels`."""
        pairs = zip(points.float().cpu(), weights.float().cpu(), strict=True)
        found = [self._of_head(*pair, num_clusters) for pair in pairs]
        return torch.stack(found).to(points.device)

    def _of_head(self, points: Tensor, weights: Tensor, num_clusters: int) -> Tensor:
        num_points, head_dim = points.shape
        kmeans: Any = faiss.Kmeans(
            head_dim,
            num_clusters,
            niter=self._config.iterations,
            seed=self._config.seed,
            min_points_per_centroid=1,
            max_points_per_centroid=num_points,  # every point counts, none is sampled away
            gpu=faiss.get_num_gpus() > 0,
        )
        rows = points.contiguous().numpy()
        first = rows[first_members(num_points, num_clusters, points.device).numpy()]
        kmeans.train(rows, weights=weights.numpy(), init_centroids=first)
        _, nearest = kmeans.index.search(rows, 1)
        return torch.from_numpy(nearest[:, 0])
