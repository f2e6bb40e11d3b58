"""Joining partial attention: what a set does, in any order and any parts."""

import math
from functools import reduce
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from engine.kernels.shared.attend_keys import attend_keys
from engine.kernels.shared.merge_states import merge_states
from engine.kernels.shared.state import State, empty_state
from tests.engine.kernels.harness import DEVICE, DTYPES, guarded_buffers, surrounded
from tests.engine.kernels.harness import TOLERANCE as KERNEL
from tests.engine.naive import TOLERANCE, attention, normal

HEADS, ROWS, KEYS, WIDTH = 2, 5, 130, 16


def parts(cuts: list[int], dtype: torch.dtype = torch.float32, scale: float = 0.3) -> list[State]:
    """Attention over the stretches of keys between the cuts."""
    query, keys, values = (
        normal(HEADS, count, WIDTH, dtype=dtype, seed=seed)
        for seed, count in enumerate((ROWS, KEYS, KEYS))
    )
    edges = [0, *sorted(cuts), KEYS]
    return [
        attend_keys(query, keys[:, start:end], values[:, start:end], scale=scale)
        for start, end in pairwise(edges)
    ]


@pytest.mark.parametrize("dtype", TOLERANCE)
@given(cuts=st.lists(st.integers(0, KEYS), max_size=5), scale=st.sampled_from([0.0, 0.3, 4.0]))
@settings(max_examples=30, deadline=None)
def test_merging_parts_equals_attending_to_the_whole(
    dtype: torch.dtype, cuts: list[int], scale: float
) -> None:
    joint = reduce(merge_states, parts(cuts, dtype, scale))
    query, keys, values = (
        normal(HEADS, count, WIDTH, dtype=dtype, seed=seed)
        for seed, count in enumerate((ROWS, KEYS, KEYS))
    )
    out, lse = attention(query, keys, values, scale)
    slack = {name: 2 * bound for name, bound in TOLERANCE[dtype].items()}
    assert joint.out.dtype == dtype
    assert_close(joint.out.double(), out, **slack)
    assert_close(joint.lse.double(), lse, **slack)


def test_order_and_grouping_do_not_matter() -> None:
    a, b, c = parts([20, 100])
    assert_close(merge_states(a, b), merge_states(b, a))
    assert_close(merge_states(merge_states(a, b), c), merge_states(a, merge_states(b, c)))


def test_the_empty_state_changes_nothing() -> None:
    whole = parts([])[0]
    nothing = empty_state(whole.out)
    assert_close(merge_states(whole, nothing), whole)
    assert_close(merge_states(nothing, whole), whole)


def test_rows_that_saw_no_key_anywhere_stay_empty() -> None:
    nothing = empty_state(torch.empty(HEADS, ROWS, WIDTH))
    joint = merge_states(nothing, nothing)
    assert (joint.out == 0).all()
    assert torch.isneginf(joint.lse).all()


@pytest.mark.parametrize("fused", [False, True])
def test_far_apart_masses_neither_overflow_nor_vanish(fused: bool) -> None:
    merge = merge_states
    if fused:
        pytest.importorskip("triton")
        from engine.kernels.shared.triton.merge_states import merge_states_triton as merge
    out = normal(HEADS, ROWS, WIDTH).to(DEVICE)
    strong = State(out, torch.full((HEADS, ROWS), 3e4, device=DEVICE))
    weak = State(-out, torch.full((HEADS, ROWS), -3e4, device=DEVICE))
    for joint in (merge(strong, weak), merge(weak, strong)):
        assert_close(joint, strong)
    for part in (strong, weak):
        assert_close(merge(part, part).lse, part.lse + math.log(2.0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_kernel_merges_as_the_definition_does(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton")
    from engine.kernels.shared.triton.merge_states import merge_states_triton

    a, b = (
        State(
            surrounded(normal(3, 7, 24, dtype=dtype, seed=seed).to(DEVICE)),
            surrounded(20 * normal(3, 7, seed=seed + 2).to(DEVICE)),
        )
        for seed in (1, 2)
    )
    out, lse = b  # its part is a slice of something wider
    b = State(torch.cat((out, out), dim=2)[..., :24], torch.stack((lse, lse), dim=2)[..., 0])
    a.lse[0, :3] = b.lse[0, 2:5] = -torch.inf  # rows that have seen no key here, there, nowhere
    a.out[0, :3] = b.out[0, 2:5] = 0.0
    expected = merge_states(a, b)
    with guarded_buffers(monkeypatch):
        found = merge_states_triton(a, b)
    assert_close(found.out, expected.out, rtol=KERNEL[dtype], atol=KERNEL[dtype])
    assert_close(found.lse, expected.lse, rtol=1e-5, atol=1e-5)
    assert found.lse[0, 2] == -torch.inf
    assert (found.out[0, 2] == 0).all()
