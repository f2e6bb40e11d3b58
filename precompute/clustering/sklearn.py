"""K-means by scikit-learn, on the CPU, head by head."""

import warnings
from functools import partial

import torch
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from precompute.clustering.base import HeadByHead, KMeansConfig, first_members


def build(config: KMeansConfig) -> HeadByHead:
    """Build the back end."""
    return HeadByHead(partial(sklearn_labels, config), config.check)


def sklearn_labels(
    config: KMeansConfig, points: Tensor, weights: Tensor, num_clusters: int
) -> Tensor:
    """Lloyd's algorithm in Euclidean distance; empty clusters move to the farthest points."""
    first = points[first_members(len(points), num_clusters, points.device)]
    kmeans = KMeans(
        num_clusters,
        init=first.numpy(),
        n_init=1,
        max_iter=config.iterations,
        tol=0.0,
        random_state=config.seed,
    )
    with warnings.catch_warnings():  # copies of a point fill fewer clusters: no trouble
        warnings.simplefilter("ignore", ConvergenceWarning)
        kmeans.fit(points.numpy(), sample_weight=weights.numpy())
    return torch.from_numpy(kmeans.labels_).long()
