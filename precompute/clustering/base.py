"""What a K-means back end does, and how its labels become runs of clusters."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


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
    heads, _, head_dim = points.shape
    where = labels[..., None].expand(-1, -1, head_dim)
    sums = torch.zeros(heads, num_clusters, head_dim, device=points.device)
    sums.scatter_add_(1, where, points.float() * weights[..., None])
    mass = torch.zeros(heads, num_clusters, device=points.device).scatter_add_(1, labels, weights)
    return sums / mass.clamp(min=1e-20)[..., None]
