"""Which clusters a question attends to, on one level and on two."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from common.errors import InvalidInput
from engine.attend.clusters import (
    FullClusterAttention,
    Lookup,
    Selection,
    SparseClusterAttention,
    attend_selected,
    select_clusters,
)
from engine.config import LookupConfig
from engine.document.budget import Thresholds
from engine.document.cache import Clusters, LayerCache
from engine.kernels.shared.score_clusters import AGGREGATIONS, aggregate, log_cluster_scores
from precompute.clustering.base import KMeansConfig
from precompute.clustering.torch import TorchKMeans
from precompute.layout import lay_out_clusters
from precompute.prefill import PrefilledLayer
from tests.engine import naive
from tests.engine.naive import normal
from tests.models import SETTINGS

HEADS, TOKENS, WIDTH = 2, 400, 16
ALL = Thresholds(-math.inf, -math.inf)
NONE = Thresholds(math.inf, math.inf)
CONFIGS = [LookupConfig(levels, how) for levels in (1, 2) for how in AGGREGATIONS]


def some_layer(seed: int = 0) -> LayerCache:
    """A clustered layer of keys that have some structure."""
    topics = normal(HEADS, 12, WIDTH, seed=seed)
    keys = topics[:, torch.arange(TOKENS) % 12] + 0.5 * normal(HEADS, TOKENS, WIDTH, seed=seed + 1)
    layer = PrefilledLayer(keys, normal(HEADS, TOKENS, WIDTH, seed=seed + 2))
    return lay_out_clusters([layer], TorchKMeans(KMeansConfig()), SETTINGS)[0]


def some_lookup(group: int = 2, tokens: int = 3, softcap: float | None = None) -> Lookup:
    rows = normal(HEADS, group * tokens, WIDTH, seed=9)
    return Lookup(rows, group, normal(HEADS, group * tokens, seed=10), 0.5, softcap)


def level2_votes(lookup: Lookup, layer: LayerCache, how: str) -> Tensor:
    """Aggregated log scores of all level-2 clusters (heads, clusters), nothing pruned."""
    scores = log_cluster_scores(
        lookup.rows,
        layer.level2.centroids,
        layer.level2.sizes,
        scale=lookup.scale,
        softcap=lookup.softcap,
        extra_lse=lookup.extra_lse,
    )
    return aggregate(scores, lookup.group, how)


def members(layer: LayerCache, head: int, cluster: int) -> list[int]:
    start, end = layer.level2.offsets[head, cluster : cluster + 2].tolist()
    return list(range(start, end))


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@pytest.mark.parametrize("softcap", [None, 4.0])
@pytest.mark.parametrize("group", [1, 2, 4, 8])
@pytest.mark.parametrize("tokens", [1, 5])
def test_without_thresholds_everything_is_attended_to(
    tokens: int, group: int, softcap: float | None, config: LookupConfig
) -> None:
    layer, lookup = some_layer(), some_lookup(group, tokens, softcap)
    reached = SparseClusterAttention(ALL, config).attend(lookup, layer)
    assert reached.selection is not None
    everyone = torch.arange(layer.num_tokens - layer.num_anchors)
    assert all(torch.equal(chosen, everyone) for chosen in reached.selection.tokens)
    assert_close(reached.state, FullClusterAttention().attend(lookup, layer).state)


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_over_the_highest_score_nothing_is_selected(config: LookupConfig) -> None:
    layer, lookup = some_layer(), some_lookup()
    reached = SparseClusterAttention(NONE, config).attend(lookup, layer)
    assert reached.selection is not None
    assert reached.selection.num_tokens == 0
    assert torch.isneginf(reached.state.lse).all()
    assert (reached.state.out == 0).all()


@pytest.mark.parametrize("how", AGGREGATIONS)
@pytest.mark.parametrize("levels", [1, 2])
def test_the_top_cluster_is_selected_first(levels: int, how: str) -> None:
    layer, lookup = some_layer(), some_lookup()
    votes = level2_votes(lookup, layer, how)
    top = float(votes.max())
    head, cluster = divmod(int(votes.argmax()), votes.shape[1])
    found = select_clusters(
        lookup, layer, Thresholds(-math.inf, top - 1e-6), LookupConfig(levels, how)
    )
    assert found.tokens[head].tolist() == members(layer, head, cluster)
    assert found.num_tokens == len(found.tokens[head]) > 0


@pytest.mark.parametrize("how", AGGREGATIONS)
@pytest.mark.parametrize("level2", [-6.5, -6.0, -5.0])
def test_two_levels_select_what_one_does_while_level_one_prunes_nothing(
    level2: float, how: str
) -> None:
    layer, lookup = some_layer(), some_lookup()
    thresholds = Thresholds(-math.inf, level2)
    one = select_clusters(lookup, layer, thresholds, LookupConfig(1, how))
    two = select_clusters(lookup, layer, thresholds, LookupConfig(2, how))
    assert 0 < one.num_tokens < HEADS * (layer.num_tokens - layer.num_anchors)
    assert [chosen.tolist() for chosen in one.tokens] == [chosen.tolist() for chosen in two.tokens]
    assert two.centroids_read == one.centroids_read + layer.level1.sizes.numel()


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_lower_thresholds_select_more(config: LookupConfig) -> None:
    layer, lookup = some_layer(), some_lookup()
    chosen: list[set[tuple[int, int]]] = []
    for level in (-4.0, -5.0, -6.0, -7.0, -9.0):
        found = select_clusters(lookup, layer, Thresholds(-math.inf, level), config)
        chosen.append({(head, int(at)) for head, ats in enumerate(found.tokens) for at in ats})
    assert len(chosen[0]) < len(chosen[-1])
    assert all(fewer <= more for fewer, more in pairwise(chosen))


def test_level_one_prunes_whole_runs_of_clusters_and_reads_only_the_others() -> None:
    layer, lookup = some_layer(), some_lookup()
    scores = log_cluster_scores(
        lookup.rows,
        layer.level1.centroids,
        layer.level1_token_sizes(),
        scale=lookup.scale,
        extra_lse=lookup.extra_lse,
    )
    votes = aggregate(scores, lookup.group, "max_group_mean")
    level1 = float(votes.median())
    found = select_clusters(lookup, layer, Thresholds(level1, -math.inf), LookupConfig(2))
    kept = votes >= level1
    assert 0 < int(kept.sum()) < kept.numel()
    for head in range(HEADS):
        wanted = [
            token
            for parent in kept[head].nonzero()[:, 0].tolist()
            for cluster in range(*layer.level1.offsets[head, parent : parent + 2].tolist())
            for token in members(layer, head, cluster)
        ]
        assert found.tokens[head].tolist() == wanted
    opened = int(layer.level1.sizes[kept].sum())
    assert found.centroids_read == kept.numel() + opened


def test_pruned_clusters_keep_their_place_in_the_denominator() -> None:
    """By hand: one head, one row, two level-1 clusters of which the weaker is pruned."""
    centroids2 = torch.tensor([[[2.0], [1.5], [-1.0]]])  # the first two make up the first parent
    layer = LayerCache(
        keys=torch.tensor([[[2.0], [1.5], [-1.0], [-1.0]]]),
        values=torch.zeros(1, 4, 1),
        positions=torch.arange(4, dtype=torch.int32)[None],
        num_anchors=0,
        level2=Clusters(centroids2, torch.tensor([[0, 1, 2, 4]], dtype=torch.int32)),
        level1=Clusters(
            torch.tensor([[[1.75], [-1.0]]]), torch.tensor([[0, 2, 3]], dtype=torch.int32)
        ),
    )
    lookup = Lookup(torch.ones(1, 1, 1), 1, torch.tensor([[0.0]]), 1.0, None)
    mass = math.exp(2.0) + math.exp(1.5) + 2 * math.exp(-1.0) + 1.0  # the last is extra_lse
    second = 1.5 - math.log(mass)
    kept = select_clusters(lookup, layer, Thresholds(-2.0, second - 1e-5), LookupConfig(2, "max"))
    assert kept.tokens[0].tolist() == [0, 1]
    left = select_clusters(lookup, layer, Thresholds(-2.0, second + 1e-5), LookupConfig(2, "max"))
    assert left.tokens[0].tolist() == [0]
    assert kept.centroids_read == left.centroids_read == 2 + 2


@pytest.mark.parametrize("levels", [1, 2])
def test_what_is_not_selected_is_not_attended_to(levels: int) -> None:
    layer, lookup = some_layer(), some_lookup(group=4, tokens=2)
    found = select_clusters(lookup, layer, Thresholds(-5.5, -5.5), LookupConfig(levels))
    state = attend_selected(lookup, layer, found)
    for head, chosen in enumerate(found.tokens):
        assert 0 < len(chosen) < layer.num_tokens - layer.num_anchors
        one = slice(head, head + 1)
        out, lse = naive.attention(
            lookup.rows[one],
            layer.keys[one, layer.num_anchors :][:, chosen],
            layer.values[one, layer.num_anchors :][:, chosen],
            lookup.scale,
        )
        assert_close(state.out[one].double(), out, rtol=1e-5, atol=1e-5)
        assert_close(state.lse[one].double(), lse, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_empty_clusters_change_nothing(config: LookupConfig) -> None:
    layer, lookup = some_layer(), some_lookup()
    at = 3  # an empty level-2 cluster, with a centroid that would win, within a level-1 cluster
    level2 = Clusters(
        torch.cat((layer.level2.centroids[:, :at], 50 * lookup.rows[:, :1],
                   layer.level2.centroids[:, at:]), dim=1),
        torch.cat((layer.level2.offsets[:, : at + 1], layer.level2.offsets[:, at:]), dim=1),
    )  # fmt: skip
    grown = layer.level1.offsets + (layer.level1.offsets > at).int()
    emptied = replace(layer, level2=level2, level1=Clusters(layer.level1.centroids, grown))
    thresholds = Thresholds(-6.0, -6.0)
    assert_close(
        list(select_clusters(lookup, emptied, thresholds, config).tokens),
        list(select_clusters(lookup, layer, thresholds, config).tokens),
    )


def test_an_empty_level_one_cluster_is_never_kept() -> None:
    layer, lookup = some_layer(), some_lookup()
    last = layer.level1.offsets[:, -1:]
    level1 = Clusters(
        torch.cat((layer.level1.centroids, 50 * lookup.rows[:, :1]), dim=1),
        torch.cat((layer.level1.offsets, last), dim=1),
    )
    thresholds = Thresholds(-6.0, -6.0)
    found = select_clusters(lookup, replace(layer, level1=level1), thresholds, LookupConfig(2))
    wanted = select_clusters(lookup, layer, thresholds, LookupConfig(2))
    assert_close(list(found.tokens), list(wanted.tokens))
    assert found.centroids_read == wanted.centroids_read + HEADS  # it was looked at, not opened


def test_a_group_of_heads_votes_as_each_aggregation_says() -> None:
    shares = torch.tensor([[0.1, 0.4], [0.3, 0.2], [0.05, 0.6], [0.15, 0.0]])
    rows = shares.log()[None]  # one KV head; rows: head 0 tokens 0 and 1, head 1 tokens 0 and 1
    assert_close(aggregate(rows, 2, "max")[0].exp(), torch.tensor([0.3, 0.6]))
    assert_close(aggregate(rows, 2, "mean")[0].exp(), torch.tensor([0.15, 0.3]))
    by_token = torch.tensor([[(0.1 + 0.05) / 2, 0.5], [(0.3 + 0.15) / 2, 0.1]])
    assert_close(aggregate(rows, 2, "max_group_mean")[0].exp(), by_token.amax(dim=0))
    with pytest.raises(InvalidInput, match="median"):
        aggregate(rows, 2, "median")


def test_a_selection_counts_its_tokens_over_all_heads() -> None:
    assert Selection((torch.arange(3), torch.arange(5)), 7).num_tokens == 8
