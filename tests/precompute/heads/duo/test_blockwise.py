"""Attention that gates are trained through."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from engine.model.attention import AttentionCall
from precompute.heads.duo.blockwise import (
    attend_causal_with_gradients,
    attend_streaming_blockwise,
    streaming_bias,
)
from precompute.heads.duo.gates import GatedDocumentState
from tests.engine.naive import TOLERANCE, attention, normal

FP32 = TOLERANCE[torch.float32]


def qkv(num_tokens: int) -> tuple[Tensor, Tensor, Tensor]:
    """4 query and 2 KV heads of 8."""
    return (
        normal(4, num_tokens, 8, seed=1),
        normal(2, num_tokens, 8, seed=2),
        normal(2, num_tokens, 8, seed=3),
    )


def naive(num_tokens: int, mask: Tensor, softcap: float | None) -> Tensor:
    query, key, value = qkv(num_tokens)
    key, value = (one.repeat_interleave(2, dim=0) for one in (key, value))
    return attention(query, key, value, 0.3, softcap, mask)[0].float()


def streaming_mask(num_tokens: int, num_sinks: int, window: int) -> Tensor:
    """Token by token, as the paper draws it."""
    seen = [
        [key <= token and (key < num_sinks or key > token - window) for key in range(num_tokens)]
        for token in range(num_tokens)
    ]
    return torch.tensor(seen)


@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize(
    ("num_tokens", "num_sinks", "window"),
    [(63, 4, 16), (64, 4, 16), (3, 4, 16), (1, 0, 1), (50, 0, 7), (40, 20, 8), (33, 4, 100)],
)
def test_streaming_attention_sees_sinks_and_window(
    num_tokens: int, num_sinks: int, window: int, softcap: float | None
) -> None:
    bias = streaming_bias(num_tokens, num_sinks, window, torch.device("cpu"))
    given = attend_streaming_blockwise(
        *qkv(num_tokens), bias, num_sinks=num_sinks, scale=0.3, softcap=softcap
    )
    mask = streaming_mask(num_tokens, num_sinks, window)
    assert_close(given, naive(num_tokens, mask, softcap), **FP32)


@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("num_tokens", [1, 63, 600])
def test_full_attention_sees_all_before(num_tokens: int, softcap: float | None) -> None:
    given = attend_causal_with_gradients(*qkv(num_tokens), scale=0.3, softcap=softcap)
    mask = torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril()
    assert_close(given, naive(num_tokens, mask, softcap), **FP32)


def call_of(num_tokens: int, *, layer: int = 0, window: int | None = None) -> AttentionCall:
    return AttentionCall(layer, *qkv(num_tokens), scale=0.3, softcap=None, window=window)


def gated(gates: Tensor | None, call: AttentionCall) -> Tensor:
    return GatedDocumentState(gates, call.query.shape[1], num_sinks=2, window=8).attend(call)


def test_a_gate_mixes_both_kinds_for_the_query_heads_of_its_kv_head() -> None:
    gates = torch.tensor([[0.5, 0.5], [1.0, 0.25]])
    far, near = torch.ones(40, 40, dtype=torch.bool).tril(), streaming_mask(40, 2, 8)
    full, streaming = naive(40, far, None), naive(40, near, None)
    wanted = torch.cat((full[:2], 0.25 * full[2:] + 0.75 * streaming[2:]))
    assert_close(gated(gates, call_of(40, layer=1)), wanted, **FP32)
    assert_close(gated(None, call_of(40)), full, **FP32)


def test_one_gate_a_layer_holds_for_all_its_heads() -> None:
    each, one = torch.full((2, 2), 0.3), torch.full((2, 1), 0.3)
    assert torch.equal(gated(each, call_of(40)), gated(one, call_of(40)))


def test_a_layer_with_a_window_has_no_gate() -> None:
    call = call_of(40, window=12)
    wanted = naive(40, streaming_mask(40, 0, 12), None)
    for gates in (None, torch.zeros(1, 2), torch.ones(1, 2)):
        assert_close(gated(gates, call), wanted, **FP32)


def test_a_gates_gradient_is_that_of_the_mix() -> None:
    gates = torch.tensor([[0.7, 0.2]], requires_grad=True)
    call, weights = call_of(40), normal(4, 40, 8, seed=9)
    (gated(gates, call) * weights).sum().backward()  # type: ignore[no-untyped-call]
    far, near = (gated(torch.full((1, 2), gate), call) for gate in (1.0, 0.0))
    wanted = ((far - near) * weights).reshape(2, -1).sum(dim=1)[None]
    assert gates.grad is not None
    assert_close(gates.grad, wanted, rtol=1e-4, atol=1e-4)
