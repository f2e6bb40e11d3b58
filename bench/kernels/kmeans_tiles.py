"""Which tiles make an iteration of K-means fastest: assignment, and means.

    python -m bench.kernels.kmeans_tiles --out DIR
    TRITON_INTERPRET=1 python -m bench.kernels.kmeans_tiles --dry --variants 2 --out DIR

`half` assigns the keys of a 128K document's layer to level-2 centroids in bf16, `full` those
centroids to level-1 centroids in fp32, `means` forms the level-2 means, its sort included. Labels
and means are compared with the references; time is that of replays of a CUDA graph.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from bench.kernels.clustering import SAME_LABELS, draw_keys
from bench.kernels.layer import Shape
from bench.kernels.scan import Scan, demand, parse
from engine.kernels.kmeans.member_means import member_means_reference
from engine.kernels.kmeans.nearest_centroids import nearest_centroids_reference
from engine.kernels.kmeans.triton.member_means import MEMBERS, member_means_triton
from engine.kernels.kmeans.triton.nearest_centroids import (
    FULL,
    HALF,
    AssignmentTiles,
    nearest_centroids_triton,
)
from precompute.clustering.base import first_members

STAGES = ("half", "full", "means")
SHAPE, DRY = Shape(num_keys=131_072), Shape(num_keys=300, num_heads=4, kv_heads=2, head_dim=16)
HALVES = (  # points, clusters, warps, stages
    (128, 64, 8, 3), (128, 64, 8, 2), (128, 64, 4, 2), (128, 64, 4, 3), (128, 128, 8, 3),
    (256, 32, 8, 4), (256, 32, 8, 3), (128, 32, 4, 3), (64, 128, 4, 3),
)  # fmt: skip
FULLS = (
    (64, 32, 8, 2), (64, 64, 8, 2), (128, 32, 8, 2), (32, 64, 4, 2), (32, 32, 4, 3),
    (64, 32, 4, 2),
)  # fmt: skip
ALL_MEMBERS = (8, 16, 32, 64)


@dataclass(frozen=True)
class Assignment:
    """Points (heads, points, head_dim), centroids, and the labels that the reference gives."""

    points: Tensor
    centroids: Tensor
    labels: Tensor

    def check(self, tiles: AssignmentTiles) -> None:
        """Raise WrongResult unless all but near equals get the reference's label."""
        found = nearest_centroids_triton(self.points, self.centroids, tiles)
        other = float((found != self.labels).double().mean())
        demand({"other_labels": other}, {"other_labels": 1 - SAME_LABELS})

    def call(self, tiles: AssignmentTiles) -> Tensor:
        """Assign."""
        return nearest_centroids_triton(self.points, self.centroids, tiles)


def main(given: Sequence[str] | None = None) -> None:
    """Scan all stages, as far as time allows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options = parse(parser, STAGES, given)
    scan = Scan("kernels_kmeans_tiles", options)
    shape, device = (DRY, "cpu") if options.dry else (SHAPE, "cuda")
    name = f"{shape.num_keys // 1024}K"
    lower = assignment(draw_keys(shape, 0, device), shape.num_clusters)
    scan_assignment(scan, name, "half", lower, HALF, HALVES)
    upper = assignment(lower.centroids.float(), max(2, shape.num_upper))
    scan_assignment(scan, name, "full", upper, FULL, FULLS)
    scan_means(scan, name, lower)
    scan.close()


def assignment(points: Tensor, num_clusters: int) -> Assignment:
    """The first assignment of K-means."""
    first = first_members(points.shape[1], num_clusters, points.device)
    centroids = points[:, first].contiguous()
    return Assignment(points, centroids, nearest_centroids_reference(points, centroids))


def scan_assignment(
    scan: Scan,
    name: str,
    stage: str,
    assigned: Assignment,
    now: AssignmentTiles,
    variants: Sequence[tuple[int, int, int, int]],
) -> None:
    """One kind of assignment."""
    scan.pick(
        name,
        stage,
        f"nearest_centroids.{stage.upper()}",
        [now, *(AssignmentTiles(*one) for one in variants)],
        assigned.check,
        lambda tiles: [partial(assigned.call, tiles)],
    )


def scan_means(scan: Scan, name: str, assigned: Assignment) -> None:
    """Members that a program adds at a time."""
    points, labels = assigned.points, assigned.labels
    ones = torch.ones_like(points[..., 0], dtype=torch.float32)
    inputs = (points, ones, labels, assigned.centroids.shape[1])
    wanted = member_means_reference(*inputs)

    def check(members: int) -> None:
        error = float((member_means_triton(*inputs, members) - wanted).abs().max())
        demand({"mean": error}, {"mean": 1e-3})

    scan.pick(
        name,
        "means",
        "member_means.MEMBERS",
        [MEMBERS, *ALL_MEMBERS],
        check,
        lambda members: [partial(member_means_triton, *inputs, members)],
    )


if __name__ == "__main__":
    main()
