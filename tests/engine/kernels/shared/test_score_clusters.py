"""Centroid scores against equations 1 to 3 of Squeezed Attention in float64."""

import pytest
import torch
from torch.testing import assert_close

from common.errors import ShapeError
from engine.kernels.shared.score_clusters import (
    AGGREGATIONS,
    aggregate,
    aggregate_blocks,
    log_cluster_scores,
    log_group_scores,
)
from tests.engine import naive
from tests.engine.naive import TOLERANCE, normal

SIZES = torch.tensor([[3, 1, 40, 7, 2], [1, 1, 1, 60, 9]])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("extra", [False, True])
@pytest.mark.parametrize("rows", [1, 13])
def test_scores_are_the_papers_formula(
    rows: int, extra: bool, softcap: float | None, dtype: torch.dtype
) -> None:
    query = normal(2, rows, 16, dtype=dtype, seed=1)
    centroids = normal(2, 5, 16, dtype=dtype, seed=2)
    lse = normal(2, rows, seed=3) if extra else None
    found = log_cluster_scores(query, centroids, SIZES, scale=0.3, softcap=softcap, extra_lse=lse)
    terms = naive.scores(query, centroids, 0.3, softcap).exp()
    mass = (terms * SIZES[:, None, :]).sum(dim=-1, keepdim=True)
    if lse is not None:
        mass = mass + lse.double().exp()[..., None]
    assert found.dtype == torch.float32
    assert_close(found.double(), (terms / mass).log(), **TOLERANCE[dtype])


def test_members_and_extra_mass_share_out_all_attention() -> None:
    query, centroids, lse = normal(2, 4, 16), normal(2, 5, 16, seed=1), normal(2, 4, seed=2)
    found = log_cluster_scores(query, centroids, SIZES, scale=0.3)
    assert_close((found.exp() * SIZES[:, None]).sum(dim=-1), torch.ones(2, 4))
    found = log_cluster_scores(query, centroids, SIZES, scale=0.3, extra_lse=lse)
    assert ((found.exp() * SIZES[:, None]).sum(dim=-1) < 1).all()


def test_empty_clusters_score_nothing_and_weigh_nothing() -> None:
    query, centroids = normal(2, 4, 16), normal(2, 6, 16, seed=1)
    sizes = torch.cat((SIZES[:, :2], torch.zeros(2, 1, dtype=torch.int64), SIZES[:, 2:]), dim=1)
    found = log_cluster_scores(query, centroids, sizes, scale=0.3)
    others = [0, 1, 3, 4, 5]
    assert torch.isneginf(found[..., 2]).all()
    assert_close(
        found[..., others], log_cluster_scores(query, centroids[:, others], SIZES, scale=0.3)
    )


def test_sizes_that_are_not_of_the_clusters_are_refused() -> None:
    with pytest.raises(ShapeError, match="sizes"):
        log_cluster_scores(normal(2, 4, 16), normal(2, 4, 16), SIZES, scale=1.0)


def test_rows_that_are_no_groups_are_refused() -> None:
    with pytest.raises(ShapeError, match="groups of 3"):
        aggregate(normal(2, 4, 5), 3, "mean")


@pytest.mark.parametrize("how", AGGREGATIONS)
@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("extra", [False, True])
def test_blocks_are_aggregated_as_each_alone(
    how: str, group: int, softcap: float | None, extra: bool
) -> None:
    lengths = [1, 4, 2]
    query, centroids = normal(2, group * 7, 16, seed=1), normal(2, 6, 16, seed=2)
    sizes = torch.cat((SIZES[:, :2], torch.zeros(2, 1, dtype=torch.int64), SIZES[:, 2:]), dim=1)
    lse = normal(2, group * 7, seed=3) if extra else None
    terms = {"scale": 0.3, "softcap": softcap}
    scores = log_cluster_scores(query, centroids, sizes, **terms, extra_lse=lse)
    by_token = log_group_scores(
        query, centroids, sizes, group=group, aggregation=how, **terms, extra_lse=lse
    )
    assert by_token.shape == (2, 7, 6)
    owners = torch.arange(3).repeat_interleave(torch.tensor(lengths))
    found = aggregate_blocks(by_token, group, owners, 3, how)
    by_head = scores.reshape(2, group, 7, 6)
    for block, part in enumerate(by_head.split(lengths, dim=2)):
        assert_close(found[block], aggregate(part.flatten(1, 2), group, how))


def test_an_empty_cluster_never_outweighs_the_others() -> None:
    query = torch.ones(1, 2, 4)
    centroids = torch.tensor([[[-80.0] * 4, [0.0] * 4, [-80.1] * 4]])
    sizes = torch.tensor([[3, 0, 5]])
    given = {"scale": 1.0, "softcap": None}
    by_token = log_group_scores(query, centroids, sizes, group=2, aggregation="max", **given)
    wanted = log_cluster_scores(query, centroids, sizes, **given).amax(dim=1, keepdim=True)
    assert_close(by_token, wanted, rtol=1e-4, atol=1e-4)  # scores of -320


def test_group_scores_of_rows_that_are_no_groups_are_refused() -> None:
    with pytest.raises(ShapeError, match="groups of 3"):
        log_group_scores(
            normal(2, 4, 16), normal(2, 5, 16), SIZES, group=3, aggregation="max", scale=1.0
        )
