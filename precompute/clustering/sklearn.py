"""K-means by scikit-learn, on the CPU, head by head."""

import warnings

import torch
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from precompute.clustering.base import KMeansConfig, first_members


def build(config: KMeansConfig) -> "SklearnKMeans":
    """Build the back end."""
    return SklearnKMeans(config)


class SklearnKMeans:
    """Lloyd's algorithm in Euclidean distance; empty clusters move to the farthest points."""

    def __init__(self, config: KMeansConfig) -> None:
        self._config = config

    def labels(self, points: Tensor, weights: Tensor, num_clusters: int) -> Tensor:
        """See `KMeans.labels`."""
        pairs = zip(points.float().cpu(), weights.float().cpu(), strict=True)
        found = [self._of_head(*pair, num_clusters) for pair in pairs]
        return torch.stack(found).to(points.device)

    def _of_head(self, points: Tensor, weights: Tensor, num_clusters: int) -> Tensor:
        first = points[first_members(len(points), num_clusters, points.device)]
        kmeans = KMeans(
            num_clusters,
            init=first.numpy(),
            n_init=1,
            max_iter=self._config.iterations,
            tol=0.0,
            random_state=self._config.seed,
        )
        with warnings.catch_warnings():  # copies of a point fill fewer clusters: no trouble
            warnings.simplefilter("ignore", ConvergenceWarning)
            kmeans.fit(points.numpy(), sample_weight=weights.numpy())
        return torch.from_numpy(kmeans.labels_).long()
