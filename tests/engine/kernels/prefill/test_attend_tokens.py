"""Attention to listed tokens in Triton against its definition in torch."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from common.errors import ShapeError
from engine.kernels.prefill.attend_tokens import attend_tokens, attend_tokens_reference
from engine.kernels.shared.state import State, empty_state
from tests.engine.kernels.launched import DEVICE, DTYPES, TOLERANCE, beside, guarded_buffers
from tests.engine.naive import normal

kernel = pytest.importorskip("engine.kernels.prefill.triton.attend_tokens.launch")
UNITS = pytest.importorskip("engine.kernels.prefill.triton.attend_tokens.tiles").UNITS
SMALL = kernel.Tiles(rows=16, tokens=16, ranges=5, warps=4, stages=2)
NUM_KEYS = 150


@dataclass(frozen=True)
class Case:
    """Rows of a question, and how many tokens each head lists."""

    rows: int = 20
    counts: tuple[int, ...] = (63, 0, 150)
    head_dim: int = 64
    softcap: float | None = None
    alone: bool = False  # nothing is attended to around the list

    def inputs(self, dtype: torch.dtype) -> list[Tensor | State]:
        heads = len(self.counts)
        query = normal(heads, self.rows, self.head_dim, dtype=dtype, seed=1).to(DEVICE)
        held = normal(2, heads, NUM_KEYS + 3, self.head_dim, dtype=dtype, seed=2).to(DEVICE)
        held[:, :, :3] = float("nan")  # anchors lie before the tokens and are not to be read
        tokens = torch.full((heads, NUM_KEYS), NUM_KEYS, dtype=torch.int32)
        for head, count in enumerate(self.counts):
            order = torch.randperm(NUM_KEYS, generator=torch.Generator().manual_seed(head))
            tokens[head, :count] = order[:count].sort().values
        around = empty_state(query)
        if not self.alone:
            out = normal(heads, self.rows, self.head_dim, dtype=dtype, seed=3).to(DEVICE)
            around = State(out, normal(heads, self.rows, seed=4).to(DEVICE))
        counts = torch.tensor(self.counts, dtype=torch.int32, device=DEVICE)
        return [
            beside(query),
            held[0, :, 3:],
            held[1, :, 3:],
            beside(tokens.to(DEVICE)),
            counts,
            around,
        ]


CASES = [
    Case(),
    Case(rows=1, counts=(1,), alone=True),
    Case(rows=64, counts=(16, 32, 5, 7, 150), softcap=3.0),
    Case(rows=7, counts=(0, 0), alone=True),
    Case(rows=33, counts=(150, 1), head_dim=128),
    Case(rows=4, counts=(3, 0, 0, 150, 2, 0, 1), alone=True),
]


WAYS = [
    SMALL,
    replace(SMALL, packed=True, join_columns=16),
    replace(SMALL, steady=True, join_rows=2, join_parts=8, overlap=True),
    replace(SMALL, steady=True, packed=True, ranges=2),
]


@pytest.mark.parametrize("tiles", WAYS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
def test_the_kernel_attends_as_the_definition_does(
    case: Case, dtype: torch.dtype, tiles: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.kernels.prefill.triton.attend_tokens.pack.PROGRAMS", 3)
    inputs = case.inputs(dtype)
    expected = attend_tokens_reference(*inputs, scale=0.2, softcap=case.softcap)
    with guarded_buffers(monkeypatch):
        found = kernel.attend_tokens_triton(*inputs, scale=0.2, softcap=case.softcap, tiles=tiles)
    tolerance = TOLERANCE[dtype]
    assert_close(found.out, expected.out, rtol=tolerance, atol=tolerance)
    assert_close(found.lse, expected.lse, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("ranges", [1, 2, 40])
def test_the_number_of_ranges_does_not_matter(ranges: int) -> None:
    inputs = Case().inputs(torch.float32)
    one, other = (
        kernel.attend_tokens_triton(*inputs, scale=0.2, softcap=None, tiles=tiles)
        for tiles in (SMALL, replace(SMALL, ranges=ranges))
    )
    assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_without_memory_to_pack_keys_are_read_where_they_lie(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError

    case = Case(counts=(20, 3))
    inputs = case.inputs(DTYPES[0])
    monkeypatch.setattr("engine.kernels.prefill.triton.attend_tokens.parts.pack", fail)
    monkeypatch.setattr(kernel, "fitting_tiles", lambda *_, **options: SMALL)
    packed = replace(SMALL, packed=True)
    found = kernel.attend_tokens_triton(*inputs, scale=0.2, softcap=None, tiles=packed)
    expected = attend_tokens_reference(*inputs, scale=0.2, softcap=None)
    assert_close(found.out, expected.out, rtol=2e-2, atol=2e-2)
    monkeypatch.setattr(kernel, "attend_parts", fail)
    with pytest.raises(torch.OutOfMemoryError):
        kernel.attend_tokens_triton(*inputs, scale=0.2, softcap=None, tiles=SMALL)


def test_only_long_questions_are_packed_and_only_where_they_may() -> None:
    assert kernel.fitting_tiles(4096, packed=True).packed
    assert not kernel.fitting_tiles(4096).packed
    assert not kernel.fitting_tiles(2044, packed=True).packed
    assert not kernel.may_pack(1, torch.device("cpu"))


@pytest.mark.parametrize("rows", [1, 64, 65, 256, 512, 513, 4096, 16384])
@pytest.mark.parametrize("vector_bytes", [32, 256, 512, 1024, 1 << 14])
def test_tiles_of_wide_keys_hold_no_more_bytes(rows: int, vector_bytes: int) -> None:
    tiles = kernel.fitting_tiles(rows, vector_bytes, packed=True)
    most = kernel.fitting_tiles(rows, packed=True).tokens * 256
    assert tiles.tokens == 16 or tiles.tokens * vector_bytes <= most
    assert tiles.tokens <= most // 256
    assert tiles.tokens >= 16
    assert not tiles.steady or vector_bytes <= 256  # it needs more of an SM than there is


@pytest.mark.parametrize("tokens", [512, 544, 1024, 1088, 4096])
def test_programs_of_a_packed_question_fill_their_turns(tokens: int) -> None:
    programs = tokens // 32 * kernel.fitting_tiles(4 * tokens, packed=True).ranges
    turns = -(-programs // UNITS)
    assert programs > 0.95 * UNITS * turns


def test_large_scores_do_not_overflow() -> None:
    query, *others = Case(rows=5).inputs(torch.float32)
    query *= 100
    expected = attend_tokens_reference(query, *others, scale=1.0, softcap=None)
    found = kernel.attend_tokens_triton(query, *others, scale=1.0, softcap=None, tiles=SMALL)
    assert_close(found.out, expected.out, rtol=1e-3, atol=1e-3)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")  # of the sums that are done again
@pytest.mark.parametrize("tiles", WAYS[2:])
@pytest.mark.parametrize("at", [0, 60])
def test_weights_that_do_not_fit_are_made_again(tiles: Any, at: int) -> None:
    """One key lies so far above all others that no other tile's highest score can stand for it."""
    query, keys, values, *others = Case(rows=5, counts=(63, 150)).inputs(torch.float32)
    query[:, 3] = 50.0
    token = others[0][0, at]
    keys[:, token] = 5.0
    inputs = (query, keys, values, *others)
    expected = attend_tokens_reference(*inputs, scale=0.2, softcap=None)
    found = kernel.attend_tokens_triton(*inputs, scale=0.2, softcap=None, tiles=tiles)
    assert_close(found.out, expected.out, rtol=1e-3, atol=1e-3)
    assert_close(found.out[0, 3], values[0, token], rtol=1e-3, atol=1e-3)


def test_what_does_not_fit_is_refused() -> None:
    query, keys, values, tokens, counts, around = Case().inputs(torch.float32)
    with pytest.raises(ShapeError, match="do not fit together"):
        attend_tokens(query, keys[:, :5], values, tokens, counts, around, scale=1.0)
    with pytest.raises(ShapeError, match="do not fit a query"):
        attend_tokens(query, keys, values, tokens, counts[:1], around, scale=1.0)
    with pytest.raises(ShapeError, match="lie unlike"):
        attend_tokens(query, keys, values.contiguous(), tokens, counts, around, scale=1.0)
