"""Means of clusters in Triton against their definition in torch."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from engine.kernels.kmeans.member_means import member_means_reference
from tests.engine.kernels.harness import DEVICE, guarded_buffers, surrounded
from tests.engine.naive import normal

pytest.importorskip("triton")

from engine.kernels.kmeans.triton.member_means import member_means_triton


def inputs(
    heads: int, points: int, clusters: int, head_dim: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor, int]:
    draw = torch.Generator().manual_seed(0)
    labels = torch.randint(0, clusters, (heads, points), generator=draw)
    return (
        surrounded(normal(heads, points, head_dim, dtype=dtype).to(DEVICE)),
        surrounded(torch.rand(heads, points, generator=draw).to(DEVICE)),
        labels.to(DEVICE),
        clusters,
    )


# The last shapes leave clusters empty; one cluster spans several steps of a program.
@pytest.mark.parametrize("shape", [(1, 1, 1, 64), (2, 150, 3, 128), (3, 20, 31, 24), (1, 5, 9, 64)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_means_are_the_definitions(
    shape: tuple[int, int, int, int], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = inputs(*shape, dtype=dtype)
    with guarded_buffers(monkeypatch):
        found = member_means_triton(*args)
    assert_close(found, member_means_reference(*args), rtol=1e-5, atol=1e-5)


def test_a_cluster_without_weight_is_zero() -> None:
    points, weights, labels, clusters = inputs(1, 40, 4, 64)
    weights[labels == 2] = 0.0
    found = member_means_triton(points, weights, labels, clusters)
    assert (found[0, 2] == 0).all()
    assert (found[0, 1] != 0).all()
