"""K-means by FAISS, head by head; on GPUs where its build has them."""

from functools import partial
from typing import Any

import faiss
import torch
from torch import Tensor

from precompute.clustering.base import HeadByHead, KMeansConfig, first_members


def build(config: KMeansConfig) -> HeadByHead:
    """Build the back end."""
    return HeadByHead(partial(faiss_labels, config), config.check)


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
        gpu=faiss.get_num_gpus() > 0,
    )
    rows = points.contiguous().numpy()
    first = rows[first_members(num_points, num_clusters, points.device).numpy()]
    kmeans.train(rows, weights=weights.numpy(), init_centroids=first)
    _, nearest = kmeans.index.search(rows, 1)
    return torch.from_numpy(nearest[:, 0])
