"""The physical order of a layer's cache."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from engine.document.cache import LayerCache
from precompute.clustering.base import KMeansConfig
from precompute.clustering.torch import TorchKMeans
from precompute.layout import lay_out_clusters, lay_out_window
from precompute.prefill import PrefilledLayer
from tests.engine.naive import normal
from tests.models import SETTINGS

HEADS, WIDTH = 2, 16
KMEANS = TorchKMeans(KMeansConfig())


def prefilled(num_tokens: int) -> PrefilledLayer:
    return PrefilledLayer(
        3 * normal(HEADS, num_tokens, WIDTH), normal(HEADS, num_tokens, WIDTH, seed=1)
    )


def laid_out(num_tokens: int, num_sinks: int = 4, num_tail: int = 16) -> LayerCache:
    settings = replace(SETTINGS, num_sinks=num_sinks, num_tail=num_tail)
    return lay_out_clusters([prefilled(num_tokens)], KMEANS, settings)[0]


SIZES = [(1, 4, 16), (20, 4, 16), (21, 4, 16), (130, 4, 16), (500, 4, 128), (90, 0, 0), (90, 3, 0)]
EVERY_SIZE = pytest.mark.parametrize(("num_tokens", "num_sinks", "num_tail"), SIZES)


@EVERY_SIZE
def test_keys_and_values_are_reordered_and_none_is_lost(
    num_tokens: int, num_sinks: int, num_tail: int
) -> None:
    layer, before = laid_out(num_tokens, num_sinks, num_tail), prefilled(num_tokens)
    assert layer.positions.dtype == torch.int32
    for head in range(HEADS):
        positions = layer.positions[head].long()
        assert torch.equal(positions.sort().values, torch.arange(num_tokens))
        assert torch.equal(layer.keys[head], before.keys[head, positions])
        assert torch.equal(layer.values[head], before.values[head, positions])


@EVERY_SIZE
def test_sinks_and_tail_come_first_and_unclustered(
    num_tokens: int, num_sinks: int, num_tail: int
) -> None:
    layer = laid_out(num_tokens, num_sinks, num_tail)
    anchors = [*range(num_sinks), *range(num_tokens - num_tail, num_tokens)]
    if num_sinks + num_tail >= num_tokens:  # too short to cluster anything
        anchors = list(range(num_tokens))
        assert not layer.has_clusters
    assert layer.num_anchors == len(anchors)
    for head in range(HEADS):
        assert layer.positions[head, : layer.num_anchors].tolist() == anchors


@EVERY_SIZE
def test_offsets_cut_everything_into_runs(num_tokens: int, num_sinks: int, num_tail: int) -> None:
    layer = laid_out(num_tokens, num_sinks, num_tail)
    ends = {"level2": layer.num_tokens - layer.num_anchors}
    ends["level1"] = layer.level2.sizes.shape[1]
    for name, end in ends.items():
        offsets = getattr(layer, name).offsets
        assert offsets.dtype == torch.int32
        assert (offsets[:, 0] == 0).all()
        assert (offsets[:, -1] == end).all()
        assert (offsets.diff(dim=1) >= 0).all()


def test_the_number_of_clusters_follows_the_ratios() -> None:
    layer = laid_out(520)  # 500 to be clustered
    assert layer.level2.centroids.shape == (HEADS, 50, WIDTH)
    assert layer.level1.centroids.shape == (HEADS, 15, WIDTH)
    assert laid_out(21).level2.centroids.shape == (HEADS, 1, WIDTH)


@pytest.mark.parametrize("num_tokens", [21, 130, 500])
def test_centroids_are_means_of_unnormalised_members(num_tokens: int) -> None:
    layer = laid_out(num_tokens)
    clustered = layer.keys[:, layer.num_anchors :]
    token_starts = layer.level2.offsets.gather(1, layer.level1.offsets.long())
    for level, offsets in ((layer.level2, layer.level2.offsets), (layer.level1, token_starts)):
        for head in range(HEADS):
            for cluster, (start, end) in enumerate(offsets[head].unfold(0, 2, 1).tolist()):
                wanted = clustered[head, start:end].mean(0) if end > start else torch.zeros(WIDTH)
                assert_close(level.centroids[head, cluster], wanted)


def test_runs_are_the_clusters_that_the_back_end_found() -> None:
    layer, before = laid_out(500), prefilled(500).keys[:, 4:-16]
    labels = KMEANS.labels(before, torch.ones(before.shape[:2]), 48)
    for head in range(HEADS):
        found = [
            tuple((layer.positions[head, layer.num_anchors :][start:end] - 4).tolist())
            for start, end in layer.level2.offsets[head].unfold(0, 2, 1).tolist()
        ]
        wanted = [tuple((labels[head] == label).nonzero()[:, 0].tolist()) for label in range(48)]
        assert sorted(found) == sorted(wanted)  # and members stand in document order


def test_sizes_count_tokens_and_clusters() -> None:
    layer = laid_out(500)
    assert (layer.level2.sizes.sum(dim=1) == 480).all()
    assert (layer.level1.sizes.sum(dim=1) == 48).all()
    assert (layer.level1_token_sizes().sum(dim=1) == 480).all()


def test_level_one_clusters_level_two_by_the_sizes_of_its_clusters() -> None:
    asked: list[tuple[Tensor, Tensor]] = []

    class Noting(TorchKMeans):
        def labels(self, points: Tensor, weights: Tensor, num_clusters: int) -> Tensor:
            asked.append((points, weights))
            return super().labels(points, weights, num_clusters)

    (layer,) = lay_out_clusters([prefilled(200)], Noting(KMeansConfig()), SETTINGS)
    (keys, ones), (means, sizes) = asked
    assert torch.equal(keys, prefilled(200).keys[:, 4:-16])
    assert (ones == 1).all()
    assert_close(means.sort(dim=1).values, layer.level2.centroids.sort(dim=1).values)
    assert torch.equal(sizes.sort(dim=1).values, layer.level2.sizes.sort(dim=1).values.float())


def test_centroids_have_the_keys_dtype() -> None:
    before = prefilled(200)
    halved = PrefilledLayer(before.keys.bfloat16(), before.values.bfloat16())
    (layer,) = lay_out_clusters([halved], KMEANS, SETTINGS)
    assert layer.level1.centroids.dtype == layer.level2.centroids.dtype == torch.bfloat16


@pytest.mark.parametrize(("num_tokens", "kept"), [(300, 96), (96, 96), (40, 40)])
def test_what_a_window_keeps_are_anchors(num_tokens: int, kept: int) -> None:
    before = prefilled(kept)
    layer = lay_out_window(before, 96, num_tokens)
    assert (layer.window, layer.num_anchors, layer.has_clusters) == (96, kept, False)
    assert torch.equal(layer.keys, before.keys)
    assert torch.equal(layer.values, before.values)
    assert layer.positions.tolist() == [list(range(num_tokens - kept, num_tokens))] * HEADS
    assert layer.level2.centroids.shape == layer.level1.centroids.shape == (HEADS, 0, WIDTH)


def test_a_layer_without_retrieval_heads_still_tells_its_length() -> None:
    nothing = normal(0, 300, WIDTH)
    (layer,) = lay_out_clusters([PrefilledLayer(nothing, nothing)], KMEANS, SETTINGS)
    assert (layer.num_retrieval, layer.num_tokens, layer.has_clusters) == (0, 300, False)


def test_layers_that_are_laid_out_together_are_as_alone() -> None:
    nothing = normal(0, 200, WIDTH)
    layers = [
        prefilled(200),
        PrefilledLayer(nothing, nothing),
        PrefilledLayer(normal(1, 200, WIDTH, seed=5), normal(1, 200, WIDTH, seed=6)),
    ]
    together = lay_out_clusters(layers, KMEANS, SETTINGS)
    for found, layer in zip(together, layers, strict=True):
        (alone,) = lay_out_clusters([layer], KMEANS, SETTINGS)
        assert (found.num_retrieval, found.num_anchors) == (alone.num_retrieval, alone.num_anchors)
        for one, other in zip(found.tensors(), alone.tensors(), strict=True):
            assert_close(one, other)
