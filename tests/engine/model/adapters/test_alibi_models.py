"""Bloom and MPT through their adapters give the logits of transformers' own attention."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import BloomConfig, LlamaConfig, MptConfig, PretrainedConfig

from common.errors import UnsupportedModel
from engine.attend.alibi import linear_bias
from engine.kernels.shared.attend_keys import attend_keys
from engine.model.adapters.base import find_adapter
from engine.model.alibi import attention_scope
from engine.model.attention import AttentionCall, forward
from engine.model.spec import probe
from tests.models import ALIBI, MPT, random_model

NUM_TOKENS, NUM_STEPS, TOLERANCE = 190, 10, 1e-4


class ScopedState:
    """Keeps all keys, and shows every head those within its scope, times a factor, or all."""

    def __init__(self, epsilon: float | None = None, factor: float = 1.0) -> None:
        self.keys: dict[int, Tensor] = {}
        self.values: dict[int, Tensor] = {}
        self.num_hidden = 0
        self._epsilon, self._factor = epsilon, factor

    def attend(self, call: AttentionCall) -> Tensor:
        assert call.alibi is not None
        keys, values = call.key, call.value
        if call.layer in self.keys:
            keys = torch.cat((self.keys[call.layer], keys), dim=1)
            values = torch.cat((self.values[call.layer], values), dim=1)
        self.keys[call.layer], self.values[call.layer] = keys, values
        at = torch.arange(keys.shape[1])
        asked = at[-call.key.shape[1] :]
        bias = linear_bias(call.alibi.slopes, asked, at)
        if self._epsilon is not None:
            scopes = attention_scope(call.alibi.spreads, call.alibi.slopes, self._epsilon)
            distance = (asked[:, None] - at[None, :]).expand_as(bias)
            hidden = distance >= (scopes * self._factor)[:, None, None]
            bias, self.num_hidden = bias.masked_fill(hidden, -torch.inf), int(hidden.sum())
        return attend_keys(call.query, keys, values, scale=call.scale, bias=bias).out


def twins(config: PretrainedConfig, std: float = 0.15) -> tuple[Any, Any]:
    """A random model twice, its norms uneven: as transformers runs it, and bound to the engine."""
    adapter = find_adapter(config)
    assert adapter is not None
    plain, bound = random_model(config, std=std), random_model(config, std=std)
    for model in (plain, bound):
        torch.manual_seed(7)
        for name, weight in model.named_parameters():
            if weight.dim() == 1 and ("norm" in name or "ln_f" in name) and "weight" in name:
                weight.copy_(torch.rand(weight.shape) * 1.5 + 0.1)
    return plain, adapter.bind(bound)


def ids() -> Tensor:
    return torch.randint(4, 200, (NUM_TOKENS,), generator=torch.Generator().manual_seed(1))


def in_chunks(bound: Any, state: ScopedState, chunk_tokens: int) -> Tensor:
    """Logits after the prompt and after each of ten decoding steps (steps + 1, vocabulary)."""
    prompt, answer = ids().split((NUM_TOKENS - NUM_STEPS, NUM_STEPS))
    done, kept = 0, []
    for chunk in (*prompt.split(chunk_tokens), *answer.split(1)):
        kept.append(forward(bound, chunk, done, state)[-1])
        done += len(chunk)
    return torch.stack(kept[-NUM_STEPS - 1 :])


def of_transformers(model: Any) -> Tensor:
    with torch.inference_mode():
        logits: Tensor = model(input_ids=ids()[None], use_cache=False).logits[0]
    return logits[-NUM_STEPS - 1 :]


def difference(bound: Any, state: ScopedState, chunk_tokens: int, plain: Any) -> float:
    return float((in_chunks(bound, state, chunk_tokens) - of_transformers(plain)).abs().max())


@pytest.mark.parametrize("chunk_tokens", [7, 64, 4096])
@pytest.mark.parametrize("name", ALIBI)
def test_all_keys_give_the_models_own_logits(name: str, chunk_tokens: int) -> None:
    plain, bound = twins(ALIBI[name])
    assert difference(bound, ScopedState(), chunk_tokens, plain) < TOLERANCE


@pytest.mark.parametrize("epsilon", [1e-1, 1e-2, 1e-3])
@pytest.mark.parametrize("name", ["bloom", "mpt"])
def test_windows_as_long_as_the_scope_cost_no_more_than_epsilon(name: str, epsilon: float) -> None:
    plain, bound = twins(ALIBI[name], std=0.03)
    state = ScopedState(epsilon)
    assert difference(bound, state, 64, plain) < epsilon
    assert state.num_hidden > 0, "no head's window is shorter than the text"


@pytest.mark.parametrize("name", ["bloom", "mpt"])
def test_shorter_windows_would_be_noticed(name: str) -> None:
    plain, bound = twins(ALIBI[name], std=0.03)
    assert difference(bound, ScopedState(1e-3, factor=0.2), 64, plain) > 1e-3


def test_slopes_reach_as_deep_as_the_configuration_says() -> None:
    # transformers reads `alibi_bias_max` and builds its biases without it.
    config = MptConfig(**MPT, n_heads=4, attn_config={"alibi_bias_max": 16})
    plain, bound = twins(config)
    assert difference(bound, ScopedState(), 64, plain) > TOLERANCE
    body = plain.transformer
    body.build_mpt_alibi_tensor = partial(_with_bias_max, body.build_mpt_alibi_tensor)
    assert difference(bound, ScopedState(), 64, plain) < TOLERANCE


def _with_bias_max(build: Any, heads: int, length: int, *, device: torch.device) -> Tensor:
    biases: Tensor = build(heads, length, 16, device)
    return biases


@pytest.mark.parametrize("name", ["bloom", "mpt"])
def test_binding_a_model_leaves_others_as_they_are(name: str) -> None:
    plain, bound = twins(ALIBI[name])
    assert difference(bound, ScopedState(), 64, plain) < TOLERANCE
    again, _ = twins(ALIBI[name])
    assert torch.equal(of_transformers(again), of_transformers(plain))


def test_the_probe_finds_slopes_and_spreads() -> None:
    _, bound = twins(ALIBI["bloom"])
    spec = probe(bound, 2, 4096)
    for layer in spec.layers:
        assert layer.alibi is not None
        assert layer.alibi.slopes.tolist() == [2**-2, 2**-4, 2**-6, 2**-8]
        assert (layer.alibi.spreads > 0).all()
        assert (layer.num_heads, layer.num_kv_heads, layer.window) == (4, 4, None)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (BloomConfig(slow_but_exact=True, pretraining_tp=2), "slow_but_exact"),
        (MptConfig(attn_config={"alibi": False}), "no ALiBi"),
        (MptConfig(attn_config={"prefix_lm": True}), "prefix_lm"),
        (MptConfig(attn_config={"qk_ln": True}), "qk_ln"),
        (MptConfig(attn_config={"attn_uses_sequence_id": True}), "sequence ids"),
        (MptConfig(attn_config={"attn_type": "multiquery_attention"}), "shared keys and values"),
        (MptConfig(logit_scale="inv_sqrt_d_model"), "logit_scale"),
        (MptConfig(no_bias=False), "biases in its layers"),
    ],
)
def test_what_cannot_be_served_is_refused(config: PretrainedConfig, reason: str) -> None:
    with pytest.raises(UnsupportedModel, match=reason) as caught:
        find_adapter(config)
    assert caught.value.message.endswith(".")


def test_how_long_a_context_is() -> None:
    assert [
        adapter and adapter.context_length
        for adapter in map(
            find_adapter, (BloomConfig(), BloomConfig(seq_length=512), MptConfig(max_seq_len=99))
        )
    ] == [2048, 512, 99]
    assert find_adapter(LlamaConfig()) is None
