"""K-means by FAISS: on the GPU where its build has one and the keys are there, else on the CPU."""

import logging
from functools import partial
from typing import Any

import faiss
import torch
from torch import Tensor

from engine.kernels.kmeans.member_means import member_means
from precompute.clustering.base import HeadByHead, KMeansConfig, Lloyd, first_members

log = logging.getLogger("lectern.precompute")


def build(config: KMeansConfig) -> "FaissKMeans":
    """Build the back end."""
    return FaissKMeans(config)


class FaissKMeans:
    """K-means by FAISS, which takes heads one by one."""

    def __init__(self, config: KMeansConfig) -> None:
        self._config = config
        self._told: set[bool] = set()

    def labels(self, points: Tensor, weights: Tensor, num_clusters: int) -> Tensor:
        """See `KMeans.labels`."""
        if is_on_gpu(points):
            self._tell(on_gpu=True)
            lloyd = Lloyd(self._config, nearest_on_gpu, member_means)
            return lloyd.labels(points.float(), weights, num_clusters)
        self._tell(on_gpu=False)
        by_head = HeadByHead(partial(faiss_labels, self._config), self._config.check)
        return by_head.labels(points, weights, num_clusters)

    def _tell(self, *, on_gpu: bool) -> None:
        if on_gpu in self._told:
            return
        self._told.add(on_gpu)
        if on_gpu:
            log.info("keys are clustered by FAISS on the GPU")
        else:
            log.info("keys are clustered by FAISS on the CPU")


def is_on_gpu(points: Tensor) -> bool:
    """Whether FAISS can take the points where they are: on a GPU, by a build that knows GPUs."""
    return points.is_cuda and faiss.get_num_gpus() > 0


def nearest_on_gpu(points: Tensor, centroids: Tensor) -> Tensor:
    """Find each point's nearest centroid, without a copy through the host.

    Args: as of `engine.kernels.kmeans.nearest_centroids`, in fp32.
    Returns: (heads, points) int64.
    """
    import faiss.contrib.torch_utils  # FAISS takes tensors from then on, on torch's stream

    resources = faiss.StandardGpuResources()
    heads = zip(points, centroids, strict=True)
    found = [faiss.knn_gpu(resources, own, of_head, 1)[1] for own, of_head in heads]
    return torch.stack(found)[..., 0]


def faiss_labels(
    config: KMeansConfig, points: Tensor, weights: Tensor, num_clusters: int
) -> Tensor:
    """Lloyd's algorithm in Euclidean distance; FAISS splits large clusters to fill empty ones."""
    num_points, head_dim = points.shape
    kmeans: Any = faiss.Kmeans(
        head_dim,
        num_clusters,
        niter=config.iterations,
        seed=config.seed,
        min_points_per_centroid=1,
        max_points_per_centroid=num_points,  # every point counts, none is sampled away
    )
    rows = points.contiguous().numpy()
    first = rows[first_members(num_points, num_clusters, points.device).numpy()]
    kmeans.train(rows, weights=weights.numpy(), init_centroids=first)
    _, nearest = kmeans.index.search(rows, 1)
    return torch.from_numpy(nearest[:, 0])
