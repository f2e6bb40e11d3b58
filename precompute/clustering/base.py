"""What a K-means back end does, and what back ends share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from engine.kernels.kmeans.member_means import member_means

# By device. On a GPU it is the fastest by far. On a CPU the libraries took a fifth less time, left
# 1.3 and 1.7 % more inertia (bench/results/clustering_cpu.json), and need not be installed.
AUTO, DEFAULTS = "auto", {"cuda": "triton", "cpu": "torch"}
STEP = 1 / 8  # of a member's offset from the mean: more than what half precision rounds off


MOST_SCORES = 1 << 26  # of points and centroids between two checks: on a CPU about 0.3 s


def no_check() -> None:
    """Do nothing; the check of a clustering that nobody stops."""


@dataclass(frozen=True)
class KMeansConfig:
    """How keys are clustered.

    Attributes:
        iterations: of Lloyd's algorithm.
        seed: of every random choice.
        check: called now and then while keys are clustered; may raise to stop.
    """

    iterations: int = 10
    seed: int = 0
    check: Callable[[], None] = no_check


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


def back_end(name: str, device: torch.device) -> str:
    """The back end that a name means on a device: "auto" the device's default, any other itself."""
    return DEFAULTS[device.type] if name == AUTO else name


def weighted_means(points: Tensor, weights: Tensor, labels: Tensor, num_clusters: int) -> Tensor:
    """Means of the members in fp32 (heads, num_clusters, head_dim); zeros for empty clusters."""
    return member_means(points.contiguous(), weights, labels, num_clusters)


class HeadByHead:
    """A library's K-means, which takes heads one by one on the host.

    Args:
        of_head: from points (points, head_dim) and weights (points,), both fp32 on the CPU, and the
            number of clusters to labels (points,) int64.
        check: called before each head; may raise to stop.
    """

    def __init__(
        self,
        of_head: Callable[[Tensor, Tensor, int], Tensor],
        check: Callable[[], None] = no_check,
    ) -> None:
        self._of_head = of_head
        self._check = check

    def labels(self, points: Tensor, weights: Tensor, num_clusters: int) -> Tensor:
        """See `KMeans.labels`."""
        pairs = zip(points.float().cpu(), weights.float().cpu(), strict=True)
        found = []
        for pair in pairs:
            self._check()
            found.append(self._of_head(*pair, num_clusters))
        return torch.stack(found).to(points.device)


class Lloyd:
    """Lloyd's algorithm from evenly spaced points; large clusters are split to fill empty ones.

    Args:
        nearest: as `engine.kernels.kmeans.nearest_centroids`.
        means: as `engine.kernels.kmeans.member_means`.
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
        labels = self._nearest_of_all(points, centroids)
        for _ in range(self._config.iterations):
            means = self._means(points, weights, labels, num_clusters)
            centroids = fill_empty(points, weights, labels, means).to(points.dtype)
            labels = self._nearest_of_all(points, centroids)
        return labels

    def _nearest_of_all(self, points: Tensor, centroids: Tensor) -> Tensor:
        """Assign all points; on a CPU so many at a time that a check need not wait long."""
        self._config.check()
        block = points.shape[1]
        if points.device.type == "cpu":
            block = max(1, MOST_SCORES // (centroids.shape[0] * centroids.shape[1]))
        parts = []
        for start in range(0, points.shape[1], block):
            self._config.check()
            parts.append(self._nearest(points[:, start : start + block].contiguous(), centroids))
        return torch.cat(parts, dim=1)


def fill_empty(points: Tensor, weights: Tensor, labels: Tensor, means: Tensor) -> Tensor:
    """Let each empty cluster share the points of a large one: the first that of the largest, ...

    Both centroids step aside from the mean, along a member's offset from it.

    Args:
        points, weights, labels: as of `KMeans.labels`; points without weight are not counted.
        means: (heads, clusters, head_dim) fp32 of the members of each cluster.
    Returns: centroids (heads, clusters, head_dim) fp32; all are means where none is empty.
    """
    counted = (weights > 0).long()
    nothing = torch.zeros(means.shape[:2], dtype=torch.int64, device=points.device)
    sizes = nothing.scatter_add(1, labels, counted)
    empty = sizes == 0
    if not bool(empty.any()):  # waiting for the answer takes less than the launches below
        return means
    place = torch.arange(points.shape[1], device=points.device) * counted
    member = nothing.scatter_reduce(1, labels, place, "amax")
    step = STEP * (_rows(points, member).float() - means)
    by_size = sizes.argsort(dim=1, descending=True, stable=True)
    rank = empty.cumsum(dim=1) - 1  # of an empty cluster among its like
    rank = rank.clamp(min=0) % (sizes > 1).sum(dim=1, keepdim=True).clamp(min=1)
    giver = by_size.gather(1, rank)
    gives = nothing.scatter_add(1, giver, empty.long())[..., None] > 0
    return torch.where(
        empty[..., None],
        _rows(means + step, giver),
        torch.where(gives, means - step, means),
    )


def _rows(points: Tensor, which: Tensor) -> Tensor:
    return points.gather(1, which[..., None].expand(-1, -1, points.shape[2]))


def first_members(num_points: int, num_clusters: int, device: torch.device) -> Tensor:
    """Points, evenly spaced, that are the first centroids: (num_clusters,) int64."""
    return torch.linspace(0, num_points - 1, num_clusters, device=device).round().long()
