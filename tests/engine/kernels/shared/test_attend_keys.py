"""Exact attention over given keys against the formula in float64."""

import pytest
import torch
from torch.testing import assert_close

from engine.kernels.shared import attend_keys as reference
from engine.kernels.shared.attend_keys import attend_keys, attention_weights
from tests.engine import naive
from tests.engine.naive import TOLERANCE, normal

SHAPES = [  # heads, rows, keys, head_dim
    (1, 1, 1, 8),
    (2, 1, 63, 16),
    (2, 7, 130, 16),
    (3, 33, 5, 20),
]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("softcap", [None, 3.0])
@pytest.mark.parametrize(("heads", "rows", "num_keys", "head_dim"), SHAPES)
def test_it_is_softmax_attention(
    heads: int, rows: int, num_keys: int, head_dim: int, softcap: float | None, dtype: torch.dtype
) -> None:
    query = normal(heads, rows, head_dim, dtype=dtype, seed=1)
    keys = normal(heads, num_keys, head_dim, dtype=dtype, seed=2)
    values = normal(heads, num_keys, head_dim, dtype=dtype, seed=3)
    state = attend_keys(query, keys, values, scale=0.3, softcap=softcap)
    out, lse = naive.attention(query, keys, values, 0.3, softcap)
    assert state.out.dtype == dtype
    assert state.lse.dtype == torch.float32
    assert_close(state.out.double(), out, **TOLERANCE[dtype])
    assert_close(state.lse.double(), lse, **TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_masked_keys_take_no_part_even_where_they_are_large(dtype: torch.dtype) -> None:
    query, keys = normal(2, 9, 16, dtype=dtype, seed=1), normal(2, 31, 16, dtype=dtype, seed=2)
    values = normal(2, 31, 16, dtype=dtype, seed=3)
    mask = normal(9, 31, seed=4) > 0
    mask[4] = False  # this row sees nothing
    values[:, ~mask.any(dim=0)] = 1e4
    state = attend_keys(query, keys, values, scale=0.25, mask=mask)
    out, lse = naive.attention(query, keys, values, 0.25, mask=mask)
    assert_close(state.out.double(), out, **TOLERANCE[dtype])
    assert_close(state.lse.double(), lse, **TOLERANCE[dtype])
    assert torch.isneginf(state.lse[:, 4]).all()
    assert (state.out[:, 4] == 0).all()


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_a_bias_is_added_to_the_scores_and_may_hide_keys(dtype: torch.dtype) -> None:
    query, keys = normal(2, 9, 16, dtype=dtype, seed=1), normal(2, 31, 16, dtype=dtype, seed=2)
    values = normal(2, 31, 16, dtype=dtype, seed=3)
    bias = 3.0 * normal(2, 9, 31, seed=4)
    hidden = normal(2, 9, 31, seed=5) > 0
    state = attend_keys(query, keys, values, scale=0.25, bias=bias.masked_fill(hidden, -torch.inf))
    wanted = (naive.scores(query, keys, 0.25) + bias).masked_fill(hidden, -torch.inf)
    weights = wanted.softmax(dim=-1)
    assert_close(state.out.double(), weights @ values.double(), **TOLERANCE[dtype])
    assert_close(state.lse.double(), wanted.logsumexp(dim=-1), **TOLERANCE[dtype])
    given = attention_weights(
        query, keys, state.lse, scale=0.25, bias=bias.masked_fill(hidden, -torch.inf)
    )
    assert_close(given.double(), weights, **TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("rows", "num_keys"), [(5, 0), (0, 5)])
def test_nothing_to_see_leaves_the_empty_state(
    rows: int, num_keys: int, dtype: torch.dtype
) -> None:
    empty = torch.empty(2, num_keys, 16, dtype=dtype)
    state = attend_keys(normal(2, rows, 16, dtype=dtype), empty, empty, scale=1.0)
    assert state.out.shape == (2, rows, 16)
    assert (state.out == 0).all()
    assert torch.isneginf(state.lse).all()


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    query, keys, values = (normal(2, count, 16, seed=count) for count in (37, 21, 22))
    keys, mask = keys[:, :21], normal(37, 21) > 0
    whole = attend_keys(query, keys, values[:, :21], scale=0.3, mask=mask)
    monkeypatch.setattr(reference, "MAX_SCORES", 2 * 21 * 5)  # five rows at a time
    parts = attend_keys(query, keys, values[:, :21], scale=0.3, mask=mask)
    assert_close(parts, whole)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_large_scores_do_not_overflow(dtype: torch.dtype) -> None:
    """Also those beyond fp16's largest number, 65504."""
    query, keys = (200 * normal(1, n, 16, dtype=dtype, seed=seed) for n, seed in ((3, 1), (9, 2)))
    values = normal(1, 9, 16, dtype=dtype, seed=3)
    state = attend_keys(query, keys, values, scale=1.0)
    best = naive.scores(query, keys, 1.0).argmax(dim=-1)
    assert_close(state.out, values[0, best[0]][None])


def test_a_poisoned_key_is_not_hidden() -> None:
    keys = normal(1, 9, 16)
    keys[0, 3] = torch.nan
    state = attend_keys(normal(1, 2, 16, seed=1), keys, normal(1, 9, 16, seed=2), scale=1.0)
    assert state.out.isnan().all()


def test_weights_are_shares_of_the_whole() -> None:
    query, keys, values = normal(2, 5, 16, seed=1), normal(2, 40, 16, seed=2), normal(2, 40, 16)
    lse = attend_keys(query, keys, values, scale=0.3, softcap=5.0).lse
    weights = attention_weights(query, keys[:, :25], lse, scale=0.3, softcap=5.0)
    wanted = naive.scores(query, keys, 0.3, 5.0).softmax(dim=-1)[..., :25]
    assert_close(weights.double(), wanted, rtol=1e-5, atol=1e-6)
    squares = attention_weights(query, keys[:, :25], lse, scale=0.3, softcap=5.0, power=2.0)
    assert_close(squares.double(), wanted.square(), rtol=1e-5, atol=1e-6)
    plain = attend_keys(query, keys, values, scale=0.3).lse
    squares = attention_weights(query, keys[:, :25], plain, scale=0.3, power=2.0)
    wanted = naive.scores(query, keys, 0.3, None).softmax(dim=-1)[..., :25]
    assert_close(squares.double(), wanted.square(), rtol=1e-5, atol=1e-6)
