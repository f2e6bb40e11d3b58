"""What every K-means back end promises."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize
from torch.testing import assert_close

from common import plugins
from common.errors import LeaseLost
from precompute import clustering
from precompute.clustering.base import (
    DEFAULTS,
    KMeans,
    KMeansConfig,
    back_end,
    first_members,
    weighted_means,
)
from tests.engine.naive import normal

HEADS, WIDTH = 3, 16


@dataclass(frozen=True)
class OnDevice:
    """A back end on the device it is made for."""

    kmeans: KMeans
    device: str

    def labels(self, points: Tensor, weights: Tensor, num_clusters: int) -> Tensor:
        points, weights = points.to(self.device), weights.to(self.device)
        return self.kmeans.labels(points, weights, num_clusters).cpu()


@pytest.fixture(params=plugins.names(clustering))
def kmeans(request: pytest.FixtureRequest) -> KMeans:
    device = "cuda" if request.param == "triton" else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("triton clusters on a GPU; tests of its kernels run interpreted without one")
    pytest.importorskip({"faiss": "faiss", "sklearn": "sklearn"}.get(request.param, "torch"))
    config = KMeansConfig(iterations=50, seed=1)
    return OnDevice(plugins.build(clustering, request.param, config), device)


@pytest.mark.parametrize("name", ["torch", "faiss", "sklearn"])
def test_clustering_can_be_stopped_in_the_middle(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name != "torch":
        pytest.importorskip(name)
    monkeypatch.setattr("precompute.clustering.base.MOST_SCORES", HEADS * 5 * 50)
    asked: list[int] = []

    def lost() -> None:
        asked.append(1)
        if len(asked) == 3:
            raise LeaseLost("Another worker owns this job.")

    points, _ = clouds(200, 5)
    kmeans: KMeans = plugins.build(clustering, name, KMeansConfig(check=lost))
    with pytest.raises(LeaseLost):
        kmeans.labels(points, ones(points), 5)
    assert len(asked) == 3


def test_points_that_are_assigned_in_parts_get_the_same_clusters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points, _ = clouds(200, 5)
    asked: list[int] = []
    config = KMeansConfig(check=lambda: asked.append(1))
    kmeans: KMeans = plugins.build(clustering, "torch", config)
    whole = kmeans.labels(points, ones(points), 5)
    before = len(asked)
    monkeypatch.setattr("precompute.clustering.base.MOST_SCORES", HEADS * 5 * 30)
    assert torch.equal(kmeans.labels(points, ones(points), 5), whole)
    assert len(asked) - before >= 3 * before


def clouds(num_points: int, num_clouds: int, noise: float = 0.05) -> tuple[Tensor, Tensor]:
    """Points around distinct places, and the place each belongs to."""
    owner = torch.arange(num_points) % num_clouds
    places = normalize(normal(HEADS, num_clouds, WIDTH), dim=-1)
    return places[:, owner] + noise * normal(HEADS, num_points, WIDTH, seed=2), owner


def ones(points: Tensor) -> Tensor:
    return torch.ones(points.shape[:2])


@pytest.mark.parametrize(("num_points", "num_clusters"), [(1, 1), (7, 7), (63, 5), (200, 1)])
def test_every_point_gets_a_cluster(kmeans: KMeans, num_points: int, num_clusters: int) -> None:
    points = normal(HEADS, num_points, WIDTH)
    labels = kmeans.labels(points, ones(points), num_clusters)
    assert labels.shape == (HEADS, num_points)
    assert labels.dtype == torch.int64
    assert 0 <= int(labels.min()) <= int(labels.max()) < num_clusters


def test_places_are_told_apart(kmeans: KMeans) -> None:
    points, owner = clouds(num_points=240, num_clouds=4)
    labels = kmeans.labels(points, ones(points), 12)
    for head in range(HEADS):
        for cluster in labels[head].unique():
            assert len(owner[labels[head] == cluster].unique()) == 1


def test_members_are_nearest_to_the_mean_of_their_cluster(kmeans: KMeans) -> None:
    points = normal(HEADS, 120, WIDTH)
    labels = kmeans.labels(points, ones(points), 6)
    nearest = torch.cdist(points, weighted_means(points, ones(points), labels, 6)).argmin(dim=-1)
    assert torch.equal(labels, nearest)


def test_moving_and_scaling_all_points_changes_nothing(kmeans: KMeans) -> None:
    points = normal(HEADS, 150, WIDTH)
    moved = 4 * points + 2  # powers of two keep every comparison as it was
    assert torch.equal(kmeans.labels(points, ones(points), 9), kmeans.labels(moved, ones(moved), 9))


def test_equal_runs_give_equal_labels(kmeans: KMeans) -> None:
    points = normal(HEADS, 150, WIDTH)
    first, second = (kmeans.labels(points.clone(), ones(points), 9) for _ in range(2))
    assert torch.equal(first, second)


def test_heads_do_not_see_each_other(kmeans: KMeans) -> None:
    points = normal(HEADS, 150, WIDTH)
    together = kmeans.labels(points, ones(points), 9)
    for head in range(HEADS):
        one = slice(head, head + 1)
        assert torch.equal(kmeans.labels(points[one], ones(points)[one], 9), together[one])


def test_weights_pull_centroids(kmeans: KMeans) -> None:
    """On a half circle, a heavy end draws its cluster's mean, so the other cluster grows."""
    angle = torch.linspace(0, 2.5, 51)
    points = torch.stack((angle.cos(), angle.sin()), dim=-1)[None]
    weights = torch.ones(1, 51)
    plain = kmeans.labels(points, weights, 2)
    weights[:, 0] = 100.0
    pulled = kmeans.labels(points, weights, 2)
    assert int((pulled == pulled[0, 0]).sum()) < int((plain == plain[0, 0]).sum())


def test_zeros_and_copies_are_no_trouble(kmeans: KMeans) -> None:
    points = normal(HEADS, 1, WIDTH).repeat(1, 40, 1)
    points[:, 20:] = 0.0
    labels = kmeans.labels(points, ones(points), 6)
    assert labels.shape == (HEADS, 40)


def test_no_cluster_stays_empty_while_another_can_be_split(kmeans: KMeans) -> None:
    points = normal(HEADS, 80, WIDTH) + 10.0  # so that zeros are near to none of them
    first = first_members(80, 8, points.device)
    points[:, first[:4]] = points[:, :1]  # half of the first centroids are one
    labels = kmeans.labels(points, ones(points), 8)
    assert all(len(head.unique()) == 8 for head in labels)


def test_half_precision_keys_are_clustered(kmeans: KMeans) -> None:
    points, owner = clouds(num_points=80, num_clouds=2)
    labels = kmeans.labels(points.bfloat16(), ones(points), 2)
    assert len(torch.unique(labels[0] * 2 + owner)) == 2


def test_means_are_weighted_and_of_empty_clusters_zero() -> None:
    points = torch.tensor([[[1.0], [3.0], [10.0]]])
    labels, weights = torch.tensor([[0, 0, 2]]), torch.tensor([[1.0, 3.0, 2.0]])
    assert_close(weighted_means(points, weights, labels, 3), torch.tensor([[[2.5], [0.0], [10.0]]]))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_auto_is_a_back_end_that_is_there(device: str) -> None:
    found = back_end("auto", torch.device(device))
    assert found == DEFAULTS[device]
    assert found in plugins.names(clustering)
    assert back_end("faiss", torch.device(device)) == "faiss"
