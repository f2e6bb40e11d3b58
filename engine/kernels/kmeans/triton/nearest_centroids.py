"""`nearest_centroids` in Triton."""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor


@dataclass(frozen=True)
class Tiles:
    """Points and centroids of a tile."""

    points: int = 256
    clusters: int = 64
    warps: int = 8
    stages: int = 3


HALF, FULL = Tiles(), Tiles(points=64, clusters=32)  # by precision


@triton.jit
def nearest_centroids_kernel(
    points,
    centroids,
    halves,
    labels,
    num_points,
    num_clusters,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    POINTS: tl.constexpr,
    CLUSTERS: tl.constexpr,
):
    """Each lane of a tile keeps its best score and where it stood; lanes meet once, at the end."""
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
        at = tile * CLUSTERS + lane
        there = at < num_clusters
        c = tl.load(
            centroids + (head * num_clusters + at[:, None]) * D + dims,
            mask=there[:, None] & (dims < D),
            other=0.0,
        )
        half = tl.load(halves + head * num_clusters + at, mask=there, other=float("inf"))
        score = tl.dot(x, tl.trans(c), input_precision="ieee") - half[None, :]
        nearer = score > best
        best = tl.where(nearer, score, best)
        best_tile = tl.where(nearer, tile, best_tile)
    cluster = best_tile * CLUSTERS + lane[None, :]
    first = tl.where(best == tl.max(best, 1)[:, None], cluster, num_clusters)
    label = tl.minimum(tl.min(first, 1), num_clusters - 1)  # in range even for a point of nans
    tl.store(labels + head * num_points + point, label, mask=point < num_points)


def nearest_centroids_triton(
    points: Tensor, centroids: Tensor, tiles: Tiles | None = None
) -> Tensor:
    """See `nearest_centroids`."""
    heads, num_points, head_dim = points.shape
    tiles = tiles or (FULL if points.dtype == torch.float32 else HALF)
    halves = centroids.float().square().sum(dim=-1) / 2
    labels = torch.empty(heads, num_points, dtype=torch.int64, device=points.device)
    width = max(16, triton.next_power_of_2(head_dim))
    points_fit = tiles.points * 128 // max(128, width)  # of wider ones fewer fit into an SM
    tile = min(points_fit, max(16, triton.next_power_of_2(num_points)))
    nearest_centroids_kernel[triton.cdiv(num_points, tile), heads](
        points,
        centroids,
        halves,
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
