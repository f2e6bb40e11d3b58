"""Attention of many tokens at a time, against its formula."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from common.errors import ShapeError
from engine.kernels.prefill.attend_causal import attend_all, attend_causal, attend_window
from engine.kernels.shared.state import State
from tests.engine.naive import TOLERANCE, attention, normal

WIDTH, SCALE = 16, 0.3
HEADS = [(4, 4), (4, 2), (3, 1)]


def inputs(
    heads: tuple[int, int], tokens: int, num_keys: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor]:
    return (
        normal(heads[0], tokens, WIDTH, dtype=dtype),
        normal(heads[1], num_keys, WIDTH, dtype=dtype, seed=1),
        normal(heads[1], num_keys, WIDTH, dtype=dtype, seed=2),
    )


def check(state: State, parts: tuple[Tensor, Tensor, Tensor], mask: Tensor, softcap: Any) -> None:
    query, keys, values = parts
    group = query.shape[0] // keys.shape[0]
    keys, values = keys.repeat_interleave(group, 0), values.repeat_interleave(group, 0)
    out, lse = attention(query, keys, values, SCALE, softcap, mask)
    assert state.out.dtype == query.dtype
    assert state.lse.dtype == torch.float32
    assert_close(state.out.double(), out, **TOLERANCE[query.dtype])
    assert_close(state.lse.double(), lse, **TOLERANCE[query.dtype])


def before(tokens: int, num_keys: int) -> Tensor:
    """How far before each token each key stands: (tokens, keys)."""
    return torch.arange(num_keys - tokens, num_keys)[:, None] - torch.arange(num_keys)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize(("tokens", "num_keys"), [(1, 1), (1, 40), (7, 7), (33, 90), (64, 65)])
def test_causal_is_all_before_and_oneself(
    heads: tuple[int, int], tokens: int, num_keys: int, softcap: float | None, dtype: torch.dtype
) -> None:
    parts = inputs(heads, tokens, num_keys, dtype)
    state = attend_causal(*parts, scale=SCALE, softcap=softcap)
    check(state, parts, before(tokens, num_keys) >= 0, softcap)


@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize(("tokens", "window"), [(1, 1), (1, 9), (5, 9), (9, 9), (40, 9), (33, 1)])
def test_a_window_is_oneself_and_the_tokens_right_before(
    heads: tuple[int, int], tokens: int, window: int, softcap: float | None
) -> None:
    parts = inputs(heads, tokens, window + tokens)
    state = attend_window(*parts, window=window, scale=SCALE, softcap=softcap)
    distance = before(tokens, window + tokens)
    check(state, parts, (distance >= 0) & (distance < window), softcap)


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize(("tokens", "num_keys"), [(1, 1), (7, 40), (40, 7)])
def test_all_is_every_key(heads: tuple[int, int], tokens: int, num_keys: int) -> None:
    parts = inputs(heads, tokens, num_keys)
    everything = torch.ones(tokens, num_keys, dtype=torch.bool)
    check(attend_all(*parts, scale=SCALE), parts, everything, None)


def test_no_keys_are_an_empty_state() -> None:
    query, keys, values = inputs((4, 2), 5, 0)
    state = attend_all(query, keys, values, scale=SCALE)
    assert (state.out == 0).all()
    assert torch.isneginf(state.lse).all()


@pytest.mark.parametrize("attend", [attend_all, attend_causal])
def test_strides_do_not_matter(attend: Callable[..., State]) -> None:
    query, keys, values = inputs((4, 2), 8, 30)
    turned = [part.transpose(0, 1).contiguous().transpose(0, 1) for part in (query, keys, values)]
    assert_close(attend(*turned, scale=SCALE), attend(query, keys, values, scale=SCALE))


def test_numbers_of_keys_that_do_not_fit_are_refused() -> None:
    query, keys, values = inputs((4, 2), 8, 30)
    with pytest.raises(ShapeError, match="groups of 2"):
        attend_all(query[:3], keys, values, scale=SCALE)
    with pytest.raises(ShapeError, match="the last of 7"):
        attend_causal(query, keys[:, :7], values[:, :7], scale=SCALE)
    with pytest.raises(ShapeError, match="for 8 tokens after 9"):
        attend_window(query, keys, values, window=9, scale=SCALE)
