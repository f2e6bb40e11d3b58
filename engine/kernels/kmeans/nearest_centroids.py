"""Assignment of points to the nearest of many centroids: the costly half of K-means."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from common.errors import ShapeError
from engine.kernels.shared.checks import check_contiguous, check_dims

# fp32 scores that the reference holds at a time: on a CPU what its cache holds (2 MiB; 4 times as
# fast as 256 MiB on 16K keys x 812 centroids), on a GPU what fills it.
MAX_SCORES = {"cpu": 1 << 19, "cuda": 1 << 28}
LANES = 32  # neighbouring centroids lie in one lane; values of all lanes are compared at a time


def nearest_centroids(points: Tensor, centroids: Tensor) -> Tensor:
    """Find the centroid of least Euclidean distance for each point, the first among equals.

    On a GPU the scores of points and centroids are never written to memory.

    Args:
        points: (heads, points, head_dim), contiguous.
        centroids: (heads, clusters, head_dim), at least one, contiguous, in the points' dtype;
            products are formed in it and summed in fp32.
    Returns: (heads, points) int64, indices of centroids.
    Raises: ShapeError if tensors do not fit together or are strided.
    Source: Lloyd's algorithm.
    """
    heads, num_points, head_dim = check_dims("points", points)
    dtype, device = points.dtype, points.device
    check_contiguous("points", points, (heads, num_points, head_dim), dtype, device)
    _, clusters, _ = check_dims("centroids", centroids)
    check_contiguous("centroids", centroids, (heads, clusters, head_dim), dtype, device)
    if clusters == 0:
        raise ShapeError("There are no centroids.")
    if points.is_cuda:
        from engine.kernels.kmeans.triton.nearest_centroids import nearest_centroids_triton

        return nearest_centroids_triton(points, centroids)
    return nearest_centroids_reference(points, centroids)


def nearest_centroids_reference(points: Tensor, centroids: Tensor) -> Tensor:
    """Compute `nearest_centroids` in torch: least |x - c|^2 is greatest x.c - |c|^2 / 2.

    Args: as `nearest_centroids`; nothing is checked.
    Returns: as `nearest_centroids`.
    """
    points, centroids = points.float(), centroids.float()
    heads, num_points, _ = points.shape
    missing = -centroids.shape[1] % LANES
    half_norms = pad(centroids.square().sum(dim=-1) / 2, (0, missing), value=torch.inf)
    columns = _by_lane(pad(centroids, (0, 0, 0, missing))).transpose(1, 2)
    half_norms = _by_lane(half_norms[..., None]).transpose(1, 2)  # (heads, 1, clusters)
    block = max(1, MAX_SCORES[points.device.type] // (heads * columns.shape[2]))
    parts = [
        _first_greatest(torch.bmm(points[:, start : start + block], columns).sub_(half_norms))
        for start in range(0, num_points, block)
    ]
    return torch.cat(parts, dim=1)


def _by_lane(rows: Tensor) -> Tensor:
    """Order rows (heads, clusters, n): the first of each lane, the second of each lane, ..."""
    heads, clusters, width = rows.shape
    return rows.reshape(heads, LANES, -1, width).transpose(1, 2).reshape(heads, clusters, width)


def _first_greatest(scores: Tensor) -> Tensor:
    """Each row's first greatest score, by its place before `_by_lane` (heads, points).

    On a CPU torch finds greatest values many times as fast as their places. So the lane of the
    greatest is found by values, and the place is looked for in this lane alone.
    """
    heads, num_points, clusters = scores.shape
    lanes = scores.view(heads, num_points, clusters // LANES, LANES)
    lane = lanes.amax(dim=-2).max(dim=-1, keepdim=True).indices
    where = lane[..., None, :].expand(*lanes.shape[:-1], 1)
    return lane.squeeze(-1) * lanes.shape[-2] + lanes.gather(-1, where).squeeze(-1).max(-1).indices
