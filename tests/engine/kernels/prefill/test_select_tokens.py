"""The lookup for a block of tokens in Triton against its definition in torch."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from common.errors import InvalidInput, ShapeError
from engine.kernels.prefill.select_tokens import Chosen, choose_tokens, choose_tokens_reference
from engine.kernels.shared.score_clusters import AGGREGATIONS
from tests.engine.kernels.launched import DEVICE, DTYPES, beside, guarded_buffers
from tests.engine.naive import normal

kernel = pytest.importorskip("engine.kernels.prefill.triton.select_tokens.launch")
even_splits = pytest.importorskip("engine.kernels.prefill.triton.select_tokens.mass").even_splits
SMALL = {  # so that even few clusters fill several tiles, splits and programs
    "mass_tiles": kernel.Tiles(rows=16, clusters=16, programs=12, warps=4, stages=2),
    "vote_tiles": kernel.Tiles(rows=32, clusters=16, programs=3, warps=4, stages=2),
}


@dataclass(frozen=True)
class Case:
    """Shapes of a question and a document."""

    heads: int = 2
    group: int = 4
    tokens: int = 5
    head_dim: int = 64
    clusters: int = 37
    near: int = 19
    softcap: float | None = None
    how: str = "max_group_mean"

    def inputs(self, dtype: torch.dtype) -> dict[str, Tensor]:
        rows = self.group * self.tokens
        sizes = torch.randint(0, 7, (self.heads, self.clusters), generator=seeded())
        sizes[:, -1] += sizes.sum(dim=1).max() - sizes.sum(dim=1)  # heads hold equally many tokens
        offsets = torch.cat((torch.zeros(self.heads, 1), sizes.cumsum(dim=1)), dim=1)
        tensors = {
            "query": normal(self.heads, rows, self.head_dim, dtype=dtype, seed=1),
            "centroids": normal(self.heads, self.clusters, self.head_dim, dtype=dtype, seed=2),
            "offsets": offsets.to(torch.int32),
            "threshold": torch.tensor(0.0),
            "extra_lse": normal(self.heads, rows, seed=3),
            "near": normal(self.heads, self.near, self.head_dim, dtype=dtype, seed=4),
        }
        return {name: beside(tensor.to(DEVICE)) for name, tensor in tensors.items()}

    def options(self, inputs: dict[str, Tensor]) -> dict[str, object]:
        num_tokens = int(inputs["offsets"][0, -1])
        same = {"group": self.group, "how": self.how, "softcap": self.softcap}
        return {"num_tokens": num_tokens, "scale": 0.2, **same}


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


APART = SMALL | {"mass_tiles": replace(SMALL["mass_tiles"], programs=24)}  # near keys alone
STEADY = SMALL | {"mass_tiles": replace(SMALL["mass_tiles"], steady=True)}
OVERLAPPING = {name: replace(tiles, overlap=True) for name, tiles in SMALL.items()}  # where it can
STEADY_APART = SMALL | {"mass_tiles": replace(APART["mass_tiles"], steady=True)}
CASES = [
    Case(),
    Case(group=1, tokens=1, clusters=1, heads=1),
    Case(group=8, tokens=3, softcap=3.0, how="mean"),
    Case(group=2, tokens=21, clusters=50, how="max"),
    Case(group=3, tokens=11, head_dim=128, clusters=16),
    Case(group=1, tokens=33, how="mean", near=0),
]


def threshold_at(votes: Tensor, share: float) -> Tensor:
    """A threshold between votes, that this share of the clusters reach."""
    finite = votes[votes.isfinite()].sort().values
    at = int((1 - share) * (len(finite) - 1))
    return (finite[at] + finite[min(at + 1, len(finite) - 1)]) / 2 - 1e-3


@pytest.mark.parametrize("tiles", [OVERLAPPING, APART, STEADY, STEADY_APART])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
def test_the_kernel_chooses_what_the_definition_does(
    case: Case, dtype: torch.dtype, tiles: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = case.inputs(dtype)
    options = case.options(inputs)
    votes = choose_tokens_reference(**inputs, **options).votes
    inputs["threshold"] = threshold_at(votes, 0.4)
    expected = choose_tokens_reference(**inputs, **options)
    with guarded_buffers(monkeypatch):
        found = kernel.choose_tokens_triton(**inputs, **options, **tiles)
    assert_close(found.votes, expected.votes, rtol=1e-4, atol=1e-4)
    assert_same_tokens(found, expected)


@pytest.mark.parametrize("threshold", [-1e30, 1e30])
def test_all_or_no_tokens_can_be_chosen(threshold: float) -> None:
    case = Case(heads=3)
    inputs = case.inputs(DTYPES[0]) | {"threshold": torch.tensor(threshold, device=DEVICE)}
    options = case.options(inputs)
    found = kernel.choose_tokens_triton(**inputs, **options, **SMALL)
    assert_same_tokens(found, choose_tokens_reference(**inputs, **options))
    assert (
        found.counts.tolist() == [case.near + (0 if threshold > 0 else options["num_tokens"])] * 3
    )


def test_a_vote_at_the_threshold_is_counted_as_it_is_listed() -> None:
    """A stored vote must be the one that was compared: sizes and places come from two launches."""
    case = Case(heads=1, tokens=3)
    inputs = case.inputs(DTYPES[0])
    options = case.options(inputs)
    inputs["threshold"] = torch.tensor(-1e30, device=DEVICE)
    votes = kernel.choose_tokens_triton(**inputs, **options, **SMALL).votes[0]
    sizes = inputs["offsets"][0].diff().long()
    for threshold in votes[votes.isfinite()][:12]:
        inputs["threshold"] = threshold.clone()
        found = kernel.choose_tokens_triton(**inputs, **options, **SMALL)
        assert torch.equal(found.votes[0], votes)
        kept = (votes >= threshold).repeat_interleave(sizes).nonzero()[:, 0] + case.near
        near = torch.arange(case.near, device=DEVICE)
        assert found.tokens[0, : found.counts[0]].tolist() == [*near.tolist(), *kept.tolist()]


def test_tiles_do_not_matter() -> None:
    case = Case(tokens=40, clusters=70)
    inputs = case.inputs(DTYPES[0])
    options = case.options(inputs)
    one = kernel.choose_tokens_triton(**inputs, **options, **SMALL)
    wide = replace(SMALL["vote_tiles"], rows=256, clusters=32, programs=1)
    other = kernel.choose_tokens_triton(**inputs, **options, vote_tiles=wide)
    assert_close(one.votes, other.votes, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")  # of what is left out, or redone
@pytest.mark.parametrize("tiles", [SMALL, STEADY])
@pytest.mark.parametrize("how", AGGREGATIONS)
def test_far_scores_neither_overflow_nor_vanish(how: str, tiles: dict[str, Any]) -> None:
    case = Case(how=how)
    inputs = case.inputs(torch.float32)
    inputs["query"] = inputs["query"] * 60
    options = case.options(inputs)
    found = kernel.choose_tokens_triton(**inputs, **options, **tiles)
    expected = choose_tokens_reference(**inputs, **options).votes.clamp(min=-87)
    seen = found.votes.isfinite()
    assert_close(found.votes[seen].clamp(min=-87), expected[seen], rtol=1e-3, atol=2e-2)


@pytest.mark.parametrize(
    ("row_tiles", "tiles", "splits"),
    [(1, 205, 33), (2, 205, 16), (32, 205, 1), (128, 205, 1), (1, 52, 33), (32, 52, 1)],
)
def test_splits_of_lengths_that_were_measured(row_tiles: int, tiles: int, splits: int) -> None:
    assert even_splits(8 * row_tiles, tiles, 264) == splits


def test_no_question_leaves_half_of_the_programs_without_a_split() -> None:
    for row_tiles in range(1, 129):
        splits = even_splits(8 * row_tiles, 205, 264)
        turns = -(-8 * row_tiles * splits // 264)
        assert 8 * row_tiles * splits > 0.7 * 264 * turns, row_tiles


@pytest.mark.parametrize("rows", [1, 16, 64, 65, 128, 129, 256, 257, 4096])
def test_tiles_fit_the_rows(rows: int) -> None:
    assert kernel.fitting_mass(rows).rows in (128, min(128, max(16, 1 << (rows - 1).bit_length())))
    assert kernel.fitting_vote(rows).rows >= min(rows, 128)


def assert_same_tokens(found: Chosen, expected: Chosen) -> None:
    assert torch.equal(found.counts, expected.counts)
    for head, count in enumerate(expected.counts.tolist()):
        assert torch.equal(found.tokens[head, :count], expected.tokens[head, :count])


def test_what_does_not_fit_is_refused() -> None:
    case = Case()
    inputs = case.inputs(torch.float32)
    options = case.options(inputs)
    with pytest.raises(ShapeError, match="groups of 3"):
        choose_tokens(**inputs, **(options | {"group": 3}))
    with pytest.raises(ShapeError, match="offsets"):
        choose_tokens(**(inputs | {"offsets": inputs["offsets"][:, 1:]}), **options)
    with pytest.raises(InvalidInput, match="none of"):
        choose_tokens(**inputs, **(options | {"how": "least"}))
    with pytest.raises(InvalidInput, match="none of"):
        kernel.choose_tokens_triton(**inputs, **(options | {"how": "least"}))
