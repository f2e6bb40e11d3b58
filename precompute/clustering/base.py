"""What a K-means back end does, and what those of our own share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from engine.kernels.member_means import member_means


@dataclass(frozen=True)
class KMeansConfig:
    """Iterations of Lloyd's algorithm, and the seed of every random choice."""

    iterations: int = 10
    seed: int = 0


class KMeans(Protocol):
    """K-means in Euclidean distance, over several heads at once."""

    def labels(self, points: Tensor, weights: Tensor, num_clusters: int) -> Tensor:
        """Assign points to the clusters of the nearest means.

        Args:
            points: (heads, points, head_dim), any norms.
            weights: (heads, points), non-negative; how much a point counts in its centroid.
            num_clusters: at most the number of points.
        Returns: labels (heads, points) int64 in [0, num_clusters); clusters may be empty.
        """
        ...


def weighted_means(points: Tensor, weights: Tensor, labels: Tensor, num_clusters: int) -> Tensor:
    """Means of the members in fp32 (heads, num_clusters, head_dim); zeros for empty clusters."""
    return member_means(points.contiguous(), weights, labels, num_clusters)


class Lloyd:
    """Lloyd's algorithm; neighbours in the text are the first centroids.

    Args:
        nearest: as `engine.kernels.nearest_centroids`.
        means: as `engine.kernels.member_means`.
    """

    def __init__(
        self,
        config: KMeansConfig,
        nearest: Callable[[Tensor, Tensor], Tensor],
        means: Callable[[Tensor, Tensor, Tensor, int], Tensor],
    ) -> None:
        self._config = config
        self._nearest = nearest
        self._means = means

    def labels(self, points: Tensor, weights: Tensor, num_clusters: int) -> Tensor:
        """See `KMeans.labels`; centroids are rounded to the points' dtype."""
        points = points.contiguous()
        centroids = points[:, first_members(points.shape[1], num_clusters, points.device)]
        labels = self._nearest(points, centroids)
        for _ in range(self._config.iterations):
            means = self._means(points, weights, labels, num_clusters)
            # An empty cluster keeps its centroid: later rounds may fill it.
            empty = means.abs().amax(dim=-1, keepdim=True) == 0
            centroids = torch.where(empty, centroids, means.to(points.dtype))
            labels = self._nearest(points, centroids)
        return labels


def first_members(num_points: int, num_clusters: int, device: torch.device) -> Tensor:
    """Points, evenly spaced, that are the first centroids: (num_clusters,) int64."""
    return torch.linspace(0, num_points - 1, num_clusters, device=device).round().long()
