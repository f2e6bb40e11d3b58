"""Assignment to the nearest centroid in Triton against its definition in torch."""

import pytest
import torch
from torch import Tensor

from common.errors import ShapeError
from engine.kernels.kmeans.nearest_centroids import nearest_centroids, nearest_centroids_reference
from tests.engine.kernels.harness import DEVICE, DTYPES, guarded_buffers, surrounded
from tests.engine.naive import normal

pytest.importorskip("triton")

from engine.kernels.kmeans.triton.nearest_centroids import (
    AssignmentTiles,
    nearest_centroids_triton,
)

SMALL = AssignmentTiles(points=16, clusters=16, warps=4, stages=2)
SHAPES = [(1, 1, 1, 64), (2, 37, 33, 64), (3, 64, 5, 128), (1, 17, 16, 24), (1, 33, 20, 256)]


def inputs(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    heads, points, clusters, head_dim = shape
    return (
        surrounded(normal(heads, points, head_dim, dtype=dtype, seed=1).to(DEVICE)),
        surrounded(normal(heads, clusters, head_dim, dtype=dtype, seed=2).to(DEVICE)),
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_nearest_is_found(
    shape: tuple[int, ...], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    points, centroids = inputs(shape, dtype)
    with guarded_buffers(monkeypatch):
        found = nearest_centroids_triton(points, centroids, SMALL)
    distance = torch.cdist(points.double(), centroids.double())
    chosen = distance.gather(2, found[..., None])[..., 0]
    assert found.dtype == torch.int64
    # Nearer than any other but for rounding; ties are drawn by the products' own rounding.
    assert (chosen <= distance.amin(dim=2) * (1 + 1e-6) + 1e-6).all()


def test_among_equals_the_first_is_taken() -> None:
    points, centroids = inputs((2, 20, 40, 64), torch.float32)
    centroids[:, 7] = centroids[:, 3]  # in the same tile
    centroids[:, 16:32] = centroids[:, :16]  # in another, at the same place in it
    centroids[:, 32:] = centroids[:, 3:11]  # and at other places
    found = nearest_centroids_triton(points, centroids, SMALL)
    assert torch.equal(found, nearest_centroids_reference(points, centroids))
    assert int(found.max()) < 16
    assert not (found == 7).any()


def test_a_point_that_is_no_number_gets_some_cluster() -> None:
    points, centroids = inputs((1, 20, 5, 64), torch.float32)
    points[0, 3] = float("nan")
    found = nearest_centroids_triton(points, centroids, SMALL)
    assert 0 <= int(found[0, 3]) < 5


def test_no_centroids_are_refused() -> None:
    points, centroids = inputs((2, 20, 5, 64), torch.float32)
    with pytest.raises(ShapeError, match="no centroids"):
        nearest_centroids(points, centroids[:, :0])
