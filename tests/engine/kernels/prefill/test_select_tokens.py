"""The lookup for a block of tokens in Triton against its definition in torch."""

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from common.errors import InvalidInput, ShapeError
from engine.kernels.prefill.select_tokens import (
    LOWEST_THRESHOLD,
    SelectedTokens,
    SelectTokensInputs,
    find_threshold,
    select_tokens,
    select_tokens_reference,
)
from engine.kernels.shared.score_clusters import AGGREGATIONS
from tests.engine.kernels.harness import COMPILED, DEVICE, DTYPES, guarded_buffers, surrounded
from tests.engine.naive import normal

pytest.importorskip("triton")

from engine.kernels.prefill.triton.select_tokens.aggregate import default_aggregate_tiles
from engine.kernels.prefill.triton.select_tokens.denominator import (
    default_denominator_tiles,
    even_splits,
)
from engine.kernels.prefill.triton.select_tokens.launch import select_tokens_triton
from engine.kernels.prefill.triton.select_tokens.tiles import SelectTiles

Tiles = dict[str, SelectTiles]
SMALL: Tiles = {  # so that even few clusters fill several tiles, splits and programs
    "denominator_tiles": SelectTiles(rows=16, clusters=16, programs=12, warps=4, stages=2),
    "aggregate_tiles": SelectTiles(rows=32, clusters=16, programs=3, warps=4, stages=2),
}


@dataclass(frozen=True)
class Case:
    """Shapes of a question and a document."""

    heads: int = 2
    group: int = 4
    tokens: int = 5
    head_dim: int = 64
    clusters: int = 37
    anchors: int = 19
    softcap: float | None = None
    aggregation: str = "max_group_mean"

    def inputs(self, dtype: torch.dtype) -> SelectTokensInputs:
        """Draw it; the threshold is 0 nats."""
        rows = self.group * self.tokens
        generator = torch.Generator().manual_seed(0)
        sizes = torch.randint(0, 7, (self.heads, self.clusters), generator=generator)
        sizes[:, -1] += sizes.sum(dim=1).max() - sizes.sum(dim=1)  # heads have equally many tokens
        offsets = torch.cat((torch.zeros(self.heads, 1), sizes.cumsum(dim=1)), dim=1)
        anchors = normal(self.heads, self.anchors, self.head_dim, dtype=dtype, seed=4)
        centroids = normal(self.heads, self.clusters, self.head_dim, dtype=dtype, seed=2)
        query = normal(self.heads, rows, self.head_dim, dtype=dtype, seed=1)
        return SelectTokensInputs(
            query=surrounded(query.to(DEVICE)),
            centroids=surrounded(centroids.to(DEVICE)),
            offsets=surrounded(offsets.int().to(DEVICE)),
            threshold=torch.tensor(0.0, device=DEVICE),
            dense_lse=surrounded(normal(self.heads, rows, seed=3).to(DEVICE)),
            anchor_keys=surrounded(anchors.to(DEVICE)),
            num_tokens=int(offsets[0, -1]),
            group=self.group,
            aggregation=self.aggregation,
            scale=0.2,
            softcap=self.softcap,
        )


def with_tiles(stage: str, tiles: Tiles, **changes: int) -> Tiles:
    """The same tiles but for one stage's."""
    return tiles | {stage: replace(tiles[stage], **changes)}


DENSE_APART = with_tiles("denominator_tiles", SMALL, programs=24)  # a split for dense keys alone
FIXED = with_tiles("denominator_tiles", SMALL, fixed_maximum=True)
FIXED_APART = with_tiles("denominator_tiles", DENSE_APART, fixed_maximum=True)
OVERLAPPING = {name: replace(tiles, overlap=True) for name, tiles in SMALL.items()}  # where it can
WAYS = [OVERLAPPING, DENSE_APART, FIXED, FIXED_APART]
CASES = [
    Case(),
    Case(group=1, tokens=1, clusters=1, heads=1),
    Case(group=8, tokens=3, softcap=3.0, aggregation="mean"),
    Case(group=2, tokens=21, clusters=50, aggregation="max"),
    Case(group=3, tokens=11, head_dim=128, clusters=16),
    Case(group=1, tokens=33, aggregation="mean", anchors=0),
]
WIDE = [  # widths that are no power of two, in one tile of rows and in several
    Case(heads=1, group=1, head_dim=80, tokens=40, clusters=20, anchors=3),
    Case(group=2, head_dim=96, clusters=20, softcap=3.0),
    Case(heads=1, group=8, head_dim=112, tokens=2, clusters=20, aggregation="mean"),
    Case(heads=1, head_dim=192, tokens=9, clusters=20, anchors=20, aggregation="max"),
]
RUNS = [(case, tiles, dtype) for case in CASES + WIDE for tiles in WAYS for dtype in DTYPES]
if not COMPILED:  # every case in two of the ways, the first in all; and two in the other dtype
    RUNS = [
        (case, WAYS[(turn + step) % len(WAYS)], DTYPES[0])
        for turn, case in enumerate(CASES + WIDE)
        for step in range(2 if turn else len(WAYS))
    ]
    RUNS += [(case, FIXED_APART, DTYPES[1]) for case in (CASES[2], WIDE[0])]


def threshold_at(scores: Tensor, share: float) -> Tensor:
    """A threshold between scores, that this share of the clusters reach."""
    finite = scores[scores.isfinite()].sort().values
    at = int((1 - share) * (len(finite) - 1))
    return (finite[at] + finite[min(at + 1, len(finite) - 1)]) / 2 - 1e-3


@pytest.mark.parametrize(("case", "tiles", "dtype"), RUNS)
def test_the_kernel_selects_what_the_definition_does(
    case: Case, tiles: Tiles, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = case.inputs(dtype)
    scores = select_tokens_reference(inputs).cluster_scores
    inputs = replace(inputs, threshold=surrounded(threshold_at(scores, 0.4)))
    expected = select_tokens_reference(inputs)
    with guarded_buffers(monkeypatch):
        found = select_tokens_triton(inputs, **tiles)
    assert_close(found.cluster_scores, expected.cluster_scores, rtol=1e-4, atol=1e-4)
    assert_same_tokens(found, expected)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3, 0.8, 1.0])
@pytest.mark.parametrize("case", [CASES[0], CASES[2], CASES[3], CASES[5]])
def test_a_number_of_tokens_is_kept_to(
    case: Case, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = case.inputs(DTYPES[0])
    wanted = round(share * case.heads * inputs.num_tokens)
    number = torch.tensor([wanted], dtype=torch.int32, device=DEVICE)
    inputs = replace(inputs, threshold=None, num_wanted=surrounded(number))
    expected = select_tokens_reference(inputs)
    largest = int(inputs.offsets.diff(dim=1).max())
    listed = int(expected.counts.sum()) - case.heads * case.anchors
    assert abs(listed - wanted) <= largest
    with guarded_buffers(monkeypatch):
        found = select_tokens_triton(inputs, **SMALL)
    assert_close(found.cluster_scores, expected.cluster_scores, rtol=1e-4, atol=1e-4)
    assert_same_tokens(found, expected)


def test_equal_scores_are_selected_together() -> None:
    """Whatever is wanted: there is no threshold between them."""
    sizes = torch.tensor([[3, 4], [5, 6]])
    threshold = find_threshold(torch.full((2, 2), -3.0), sizes, 1)
    assert -3.01 < float(threshold) <= -3.0


def test_scores_below_all_bins_are_reached_by_the_lowest_threshold() -> None:
    scores, sizes = torch.tensor([[-1.0, -80.0, -torch.inf]]), torch.tensor([[3, 4, 0]])
    assert float(find_threshold(scores, sizes, 7)) == pytest.approx(LOWEST_THRESHOLD)
    assert -1.01 < float(find_threshold(scores, sizes, 3)) <= -1.0


@pytest.mark.parametrize("threshold", [-1e30, 1e30])
def test_all_or_no_tokens_can_be_selected(threshold: float) -> None:
    case = Case(heads=3)
    inputs = replace(case.inputs(DTYPES[0]), threshold=torch.tensor(threshold, device=DEVICE))
    found = select_tokens_triton(inputs, **SMALL)
    assert_same_tokens(found, select_tokens_reference(inputs))
    clustered = 0 if threshold > 0 else inputs.num_tokens
    assert found.counts.tolist() == [case.anchors + clustered] * 3


def test_a_score_at_the_threshold_is_counted_as_it_is_listed() -> None:
    """The stored score must be the one that was compared: two launches give sizes and places."""
    case = Case(heads=1, tokens=3)
    inputs = replace(case.inputs(DTYPES[0]), threshold=torch.tensor(-1e30, device=DEVICE))
    scores = select_tokens_triton(inputs, **SMALL).cluster_scores[0]
    sizes = inputs.offsets[0].diff().long()
    for threshold in scores[scores.isfinite()][:8]:
        found = select_tokens_triton(replace(inputs, threshold=threshold.clone()), **SMALL)
        assert torch.equal(found.cluster_scores[0], scores)
        selected = (scores >= threshold).repeat_interleave(sizes).nonzero()[:, 0] + case.anchors
        expected = [*range(case.anchors), *selected.tolist()]
        assert found.tokens[0, : found.counts[0]].tolist() == expected


def test_tiles_do_not_matter() -> None:
    inputs = Case(tokens=40, clusters=70).inputs(DTYPES[0])
    wide = replace(SMALL["aggregate_tiles"], rows=256, clusters=32, programs=1)
    one = select_tokens_triton(inputs, **SMALL)
    other = select_tokens_triton(inputs, aggregate_tiles=wide)
    assert_close(one.cluster_scores, other.cluster_scores, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")  # of what is left out, or redone
@pytest.mark.parametrize("tiles", [SMALL, FIXED])
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_far_scores_neither_overflow_nor_vanish(aggregation: str, tiles: Tiles) -> None:
    inputs = Case(aggregation=aggregation).inputs(torch.float32)
    inputs.query.mul_(60)
    found = select_tokens_triton(inputs, **tiles).cluster_scores
    expected = select_tokens_reference(inputs).cluster_scores.clamp(min=-87)
    seen = found.isfinite()
    assert_close(found[seen].clamp(min=-87), expected[seen], rtol=1e-3, atol=2e-2)


@pytest.mark.parametrize(
    ("row_tiles", "tiles", "splits"),
    [(1, 205, 33), (2, 205, 16), (32, 205, 1), (128, 205, 1), (1, 52, 33), (32, 52, 1)],
)
def test_splits_of_lengths_that_were_measured(row_tiles: int, tiles: int, splits: int) -> None:
    assert even_splits(8 * row_tiles, tiles, 264) == splits


def test_no_question_leaves_half_of_the_programs_without_a_split() -> None:
    for row_tiles in range(1, 129):
        splits = even_splits(8 * row_tiles, 205, 264)
        waves = -(-8 * row_tiles * splits // 264)
        assert 8 * row_tiles * splits > 0.7 * 264 * waves, row_tiles


@pytest.mark.parametrize("rows", [1, 16, 64, 65, 128, 129, 256, 257, 4096])
def test_tiles_fit_the_rows(rows: int) -> None:
    tile = default_denominator_tiles(rows).rows
    assert tile in (128, min(128, max(16, 1 << (rows - 1).bit_length())))
    assert default_aggregate_tiles(rows).rows >= min(rows, 128)


def assert_same_tokens(found: SelectedTokens, expected: SelectedTokens) -> None:
    assert torch.equal(found.counts, expected.counts)
    for head, count in enumerate(expected.counts.tolist()):
        assert torch.equal(found.tokens[head, :count], expected.tokens[head, :count])


def test_what_makes_no_lookup_is_refused() -> None:
    inputs = Case().inputs(torch.float32)
    with pytest.raises(ShapeError, match="groups of 3"):
        select_tokens(replace(inputs, group=3))
    with pytest.raises(ShapeError, match="groups of 0"):
        select_tokens(replace(inputs, group=0))
    with pytest.raises(ShapeError, match="either a threshold or a number"):
        select_tokens(replace(inputs, threshold=None))
    with pytest.raises(ShapeError, match="at least one centroid"):
        select_tokens(replace(inputs, centroids=inputs.centroids[:, :0].contiguous()))
    with pytest.raises(InvalidInput, match="none of"):
        select_tokens(replace(inputs, aggregation="least"))
