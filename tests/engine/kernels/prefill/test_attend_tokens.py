"""Attention to listed tokens in Triton against its definition in torch."""

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from common.errors import ShapeError
from engine.kernels.prefill.attend_tokens import (
    AttendTokensInputs,
    attend_tokens,
    attend_tokens_reference,
)
from engine.kernels.shared.state import State, empty_state
from tests.engine.kernels.harness import (
    COMPILED,
    DEVICE,
    DTYPES,
    TOLERANCE,
    guarded_buffers,
    surrounded,
)
from tests.engine.naive import normal

pytest.importorskip("triton")

from engine.kernels.prefill.triton.attend_tokens import launch
from engine.kernels.prefill.triton.attend_tokens.gather import may_gather
from engine.kernels.prefill.triton.attend_tokens.launch import attend_tokens_triton
from engine.kernels.prefill.triton.attend_tokens.tiles import UNITS, AttendTiles, default_tiles

SMALL = AttendTiles(rows=16, tokens=16, splits=5, warps=4, stages=2)
NUM_KEYS = 150
FOLDER = "engine.kernels.prefill.triton.attend_tokens"


@dataclass(frozen=True)
class Case:
    """Rows of a question, and how many tokens each head lists."""

    rows: int = 20
    counts: tuple[int, ...] = (63, 0, 150)
    head_dim: int = 64
    softcap: float | None = None
    alone: bool = False  # nothing but the list is attended to
    scale: float = 0.2

    def inputs(self, dtype: torch.dtype) -> AttendTokensInputs:
        heads = len(self.counts)
        query = normal(heads, self.rows, self.head_dim, dtype=dtype, seed=1).to(DEVICE)
        stored = normal(2, heads, NUM_KEYS + 3, self.head_dim, dtype=dtype, seed=2).to(DEVICE)
        stored[:, :, :3] = float("nan")  # anchors lie before the tokens and are not to be read
        tokens = torch.full((heads, NUM_KEYS), NUM_KEYS, dtype=torch.int32)
        for head, count in enumerate(self.counts):
            order = torch.randperm(NUM_KEYS, generator=torch.Generator().manual_seed(head))
            tokens[head, :count] = order[:count].sort().values
        dense = empty_state(query)
        if not self.alone:
            out = normal(heads, self.rows, self.head_dim, dtype=dtype, seed=3).to(DEVICE)
            dense = State(out, normal(heads, self.rows, seed=4).to(DEVICE))
        return AttendTokensInputs(
            query=surrounded(query),
            keys=stored[0, :, 3:],
            values=stored[1, :, 3:],
            tokens=surrounded(tokens.to(DEVICE)),
            counts=torch.tensor(self.counts, dtype=torch.int32, device=DEVICE),
            dense_state=dense,
            scale=self.scale,
            softcap=self.softcap,
        )


CASES = [
    Case(),
    Case(rows=1, counts=(1,), alone=True),
    Case(rows=64, counts=(16, 32, 5, 7, 150), softcap=3.0),
    Case(rows=7, counts=(0, 0), alone=True),
    Case(rows=33, counts=(150, 1), head_dim=128),
    Case(rows=4, counts=(3, 0, 0, 150, 2, 0, 1), alone=True),
    Case(rows=5, counts=(40, 0, 9), head_dim=80),
    Case(rows=18, counts=(33, 7), head_dim=96, softcap=3.0),
    Case(rows=3, counts=(20,), head_dim=112, alone=True),
    Case(rows=8, counts=(1, 30), head_dim=192),
]
WAYS = [
    SMALL,
    replace(SMALL, gathered=True, combine_columns=16),
    replace(SMALL, fixed_maximum=True, combine_rows=2, combine_splits=8, overlap=True),
    replace(SMALL, fixed_maximum=True, gathered=True, splits=2),
]
RUNS = [(case, tiles, dtype) for case in CASES for tiles in WAYS for dtype in DTYPES]
if not COMPILED:  # every case in two ways, and two cases in all; fp16 has no fixed maximum
    RUNS = [(case, tiles, DTYPES[0]) for case in CASES for tiles in (WAYS[0], WAYS[3])]
    RUNS += [(case, tiles, DTYPES[0]) for case in (CASES[0], CASES[5]) for tiles in WAYS[1:3]]
    RUNS += [(case, tiles, DTYPES[1]) for case in (CASES[0], CASES[6]) for tiles in WAYS[:2]]


@pytest.mark.parametrize(("case", "tiles", "dtype"), RUNS)
def test_the_kernel_attends_as_the_definition_does(
    case: Case, tiles: AttendTiles, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{FOLDER}.gather.PROGRAMS", 3)
    inputs = case.inputs(dtype)
    expected = attend_tokens_reference(inputs)
    with guarded_buffers(monkeypatch):
        found = attend_tokens_triton(inputs, tiles=tiles)
    tolerance = TOLERANCE[dtype]
    assert_close(found.out, expected.out, rtol=tolerance, atol=tolerance)
    assert_close(found.lse, expected.lse, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("splits", [1, 40])
def test_the_number_of_splits_does_not_matter(splits: int) -> None:
    inputs = Case().inputs(torch.float32)
    one, other = (
        attend_tokens_triton(inputs, tiles=tiles)
        for tiles in (SMALL, replace(SMALL, splits=splits))
    )
    assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_without_memory_to_gather_keys_are_read_where_they_lie(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError

    inputs = Case(counts=(20, 3)).inputs(DTYPES[0])
    monkeypatch.setattr(f"{FOLDER}.splits.gather_tokens", fail)
    monkeypatch.setattr(launch, "default_tiles", lambda *_, **options: SMALL)
    found = attend_tokens_triton(inputs, tiles=replace(SMALL, gathered=True))
    expected = attend_tokens_reference(inputs)
    assert_close(found.out, expected.out, rtol=2e-2, atol=2e-2)
    monkeypatch.setattr(launch, "attend_splits", fail)
    with pytest.raises(torch.OutOfMemoryError):
        attend_tokens_triton(inputs, tiles=SMALL)


def test_keys_are_gathered_for_long_questions_and_only_where_they_may() -> None:
    assert default_tiles(4096, may_gather=True).gathered
    assert not default_tiles(4096).gathered
    assert not default_tiles(2044, may_gather=True).gathered
    assert not may_gather(1, torch.device("cpu"))


@pytest.mark.parametrize("rows", [1, 64, 65, 256, 512, 513, 4096, 16384])
@pytest.mark.parametrize("vector_bytes", [32, 256, 512, 1024, 1 << 14])
def test_tiles_of_wide_keys_hold_no_more_bytes(rows: int, vector_bytes: int) -> None:
    tiles = default_tiles(rows, vector_bytes, may_gather=True)
    most = default_tiles(rows, may_gather=True).tokens * 256
    assert tiles.tokens == 16 or tiles.tokens * vector_bytes <= most
    assert tiles.tokens <= most // 256
    assert tiles.tokens >= 16
    assert not tiles.fixed_maximum or vector_bytes <= 256  # it needs more memory than there is


@pytest.mark.parametrize("tokens", [512, 544, 1024, 1088, 4096])
def test_programs_of_a_gathered_question_fill_their_waves(tokens: int) -> None:
    programs = tokens // 32 * default_tiles(4 * tokens, may_gather=True).splits
    waves = -(-programs // UNITS)
    assert programs > 0.95 * UNITS * waves


def test_large_scores_do_not_overflow() -> None:
    inputs = Case(rows=5, scale=1.0).inputs(torch.float32)
    inputs.query.mul_(100)
    expected = attend_tokens_reference(inputs)
    found = attend_tokens_triton(inputs, tiles=SMALL)
    assert_close(found.out, expected.out, rtol=1e-3, atol=1e-3)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")  # of the sums that are done again
@pytest.mark.parametrize(("tiles", "at"), [(WAYS[2], 0), (WAYS[3], 60)])
def test_weights_that_do_not_fit_are_computed_again(tiles: AttendTiles, at: int) -> None:
    """One key lies so far above all others that no other tile's highest score can stand for it."""
    inputs = Case(rows=5, counts=(63, 150)).inputs(torch.float32)
    inputs.query[:, 3] = 50.0
    token = inputs.tokens[0, at]
    inputs.keys[:, token] = 5.0
    expected = attend_tokens_reference(inputs)
    found = attend_tokens_triton(inputs, tiles=tiles)
    assert_close(found.out, expected.out, rtol=1e-3, atol=1e-3)
    assert_close(found.out[0, 3], inputs.values[0, token], rtol=1e-3, atol=1e-3)


def test_more_keys_than_a_kernel_can_count_are_refused() -> None:
    def some(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    keys = some(1, 1 << 25, 64)
    inputs = AttendTokensInputs(
        query=some(1, 4, 64),
        keys=keys,
        values=keys,
        tokens=some(1, 9, dtype=torch.int32),
        counts=some(1, dtype=torch.int32),
        dense_state=State(some(1, 4, 64), some(1, 4)),
        scale=1.0,
    )
    replace(inputs, keys=keys[:, :-1], values=keys[:, :-1]).validate()
    with pytest.raises(ShapeError, match="too many"):
        attend_tokens(inputs)
