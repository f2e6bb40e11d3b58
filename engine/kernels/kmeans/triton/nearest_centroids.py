"""`nearest_centroids` in Triton: one launch, and no scores in memory."""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor


@dataclass(frozen=True)
class AssignmentTiles:
    """Tile sizes of an assignment.

    Attributes:
        points, clusters: points and centroids of a tile.
        warps: warps of a program.
        stages: tiles of centroids loaded ahead.
    """

    points: int = 256
    clusters: int = 64
    warps: int = 8
    stages: int = 3


HALF, FULL = AssignmentTiles(), AssignmentTiles(points=64, clusters=32)  # by precision


@triton.jit
def nearest_centroids_kernel(
    points,
    centroids,
    half_norms,
    labels,
    num_points,
    num_clusters,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    POINTS: tl.constexpr,
    CLUSTERS: tl.constexpr,
):
    """Find the nearest centroids of POINTS points of a head.

    Each lane of a tile keeps its best score and the tile it was found in; lanes are compared once,
    at the end. half_norms: |c|^2 / 2 of the centroids. WIDTH: D, rounded up to a power of two.
    """
    head = tl.program_id(1).to(tl.int64)
    point = tl.program_id(0) * POINTS + tl.arange(0, POINTS)
    lane, dims = tl.arange(0, CLUSTERS), tl.arange(0, WIDTH)
    x = tl.load(
        points + (head * num_points + point[:, None]) * D + dims,
        mask=(point[:, None] < num_points) & (dims < D),
        other=0.0,
    )
    best = tl.full([POINTS, CLUSTERS], -float("inf"), tl.float32)
    best_tile = tl.zeros([POINTS, CLUSTERS], tl.int32)
    for tile in range(0, tl.cdiv(num_clusters, CLUSTERS)):
        cluster = tile * CLUSTERS + lane  # [CLUSTERS]
        exists = cluster < num_clusters
        c = tl.load(
            centroids + (head * num_clusters + cluster[:, None]) * D + dims,
            mask=exists[:, None] & (dims < D),
            other=0.0,
        )
        half_norm = tl.load(
            half_norms + head * num_clusters + cluster, mask=exists, other=float("inf")
        )  # [CLUSTERS]
        products = tl.dot(x, tl.trans(c), input_precision="ieee")  # [POINTS, CLUSTERS]
        score = products - half_norm[None, :]
        nearer = score > best
        best = tl.where(nearer, score, best)
        best_tile = tl.where(nearer, tile, best_tile)
    best_cluster = best_tile * CLUSTERS + lane[None, :]  # [POINTS, CLUSTERS]
    first = tl.where(best == tl.max(best, 1)[:, None], best_cluster, num_clusters)
    label = tl.minimum(tl.min(first, 1), num_clusters - 1)  # in range even for a point of nans
    tl.store(labels + head * num_points + point, label, mask=point < num_points)


def nearest_centroids_triton(
    points: Tensor, centroids: Tensor, tiles: AssignmentTiles | None = None
) -> Tensor:
    """Launch `nearest_centroids` in Triton.

    Args:
        points, centroids: as of `nearest_centroids`; nothing is checked.
        tiles: None for the default of the points' precision.
    Returns: as `nearest_centroids`.
    """
    heads, num_points, head_dim = points.shape
    tiles = tiles or (FULL if points.dtype == torch.float32 else HALF)
    half_norms = centroids.float().square().sum(dim=-1) / 2
    labels = torch.empty(heads, num_points, dtype=torch.int64, device=points.device)
    width = max(16, triton.next_power_of_2(head_dim))
    most_points = tiles.points * 128 // max(128, width)  # fewer of wider ones fit
    tile = min(most_points, max(16, triton.next_power_of_2(num_points)))
    nearest_centroids_kernel[triton.cdiv(num_points, tile), heads](
        points,
        centroids,
        half_norms,
        labels,
        num_points,
        centroids.shape[1],
        D=head_dim,
        WIDTH=width,
        POINTS=tile,
        CLUSTERS=tiles.clusters,
        num_warps=tiles.warps,
        num_stages=tiles.stages,
    )
    return labels
