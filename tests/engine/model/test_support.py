"""Models that cannot be served exactly are refused, each with the reason."""

from typing import Any

import pytest
from transformers import (
    BartConfig,
    BertConfig,
    DeepseekV3Config,
    DiffLlamaConfig,
    DogeConfig,
    FalconConfig,
    Gemma3nTextConfig,
    Gemma3TextConfig,
    GPTJConfig,
    JambaConfig,
    Lfm2Config,
    LlamaConfig,
    MptConfig,
    PhimoeConfig,
    PretrainedConfig,
    Qwen2Config,
    RobertaConfig,
    StableLmConfig,
    T5Config,
)

from common.errors import UnsupportedModel
from engine.model.support import check_windows, refuse_unsupported
from tests.models import ALIBI, EXPERTS, FAMILIES, FURTHER, VOCABULARY, loaded, rope, sizes

FACTORS = [1.0] * 8
SMALL = {"vocab_size": VOCABULARY, "hidden_size": 64, "num_hidden_layers": 2}
LATENT = {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8}

# Told from the configuration, before any weight is loaded.
BY_CONFIGURATION: dict[str, tuple[PretrainedConfig, str]] = {
    "dynamic-rope": (
        LlamaConfig(**sizes(rope_parameters=rope("dynamic", factor=2.0))),
        "RoPE is of kind 'dynamic', which changes with the current length",
    ),
    "longrope-of-one-kind-of-layers": (
        Gemma3TextConfig(
            **sizes(
                rope_parameters={
                    "full_attention": rope(
                        "longrope",
                        short_factor=FACTORS,
                        long_factor=FACTORS,
                        original_max_position_embeddings=512,
                    ),
                    "sliding_attention": rope("default"),
                }
            )
        ),
        "RoPE is of kind 'longrope', which changes with the current length",
    ),
    "nested-rope": (
        Gemma3TextConfig(
            **sizes(
                rope_parameters={
                    "full_attention": rope("dynamic", factor=2.0),
                    "sliding_attention": rope("default"),
                }
            )
        ),
        "RoPE is of kind 'dynamic'",
    ),
    "alibi-mpt": (MptConfig(attn_config={"prefix_lm": True}), "prefix_lm"),
    "alibi-falcon": (FalconConfig(alibi=True), "ALiBi"),
    "t5": (T5Config(), "encoder-decoder"),
    "bart": (BartConfig(), "encoder-decoder"),
    "mamba-layers": (JambaConfig(), "layers of kind linear_attention"),
    "convolutions": (
        Lfm2Config(**sizes(layer_types=["conv", "full_attention"])),
        "layers of kind conv",
    ),
    "shared-caches": (
        Gemma3nTextConfig(num_hidden_layers=15, num_kv_shared_layers=5, vocab_size=VOCABULARY),
        "shares keys and values between layers",
    ),
    "no-context-length": (PretrainedConfig(), "does not say how long its context is"),
}

# Told by sending a few tokens through the model.
BY_PROBE: dict[str, tuple[PretrainedConfig, str]] = {
    "own-attention": (
        GPTJConfig(
            **{"vocab_size": VOCABULARY, "n_embd": 64, "n_layer": 2, "n_head": 4},
            rotary_dim=8, bos_token_id=0, eos_token_id=3,
        ),
        "0 calls reached the attention interface",
    ),
    "two-calls-a-layer": (DiffLlamaConfig(**sizes(head_dim=16)), "4 calls reached the attention"),
    "own-mask": (DogeConfig(**sizes()), "builds a mask of its own"),
    "state-lost": (StableLmConfig(**sizes()), "does not pass arguments on"),
    "latent-attention": (
        DeepseekV3Config(
            **sizes(
                kv_heads=4, head_dim=8, v_head_dim=16, n_routed_experts=4, n_group=1, topk_group=1,
                moe_intermediate_size=32, first_k_dense_replace=1, num_experts_per_tok=1, **LATENT,
            )
        ),
        "Keys and values differ in width",
    ),
    "bidirectional": (
        Gemma3TextConfig(**sizes(head_dim=16, use_bidirectional_attention=True)),
        "not a causal one",
    ),
    "encoder": (
        BertConfig(**SMALL, intermediate_size=96, num_attention_heads=4),
        "not a causal one",
    ),
    "positions-ignored": (
        BartConfig(
            vocab_size=VOCABULARY, d_model=64, is_encoder_decoder=False,
            **{f"{side}_layers": 2 for side in ("encoder", "decoder")},
            **{f"{side}_attention_heads": 4 for side in ("encoder", "decoder")},
            **{f"{side}_ffn_dim": 96 for side in ("encoder", "decoder")},
        ),
        "ignores the positions",
    ),
    "positions-of-its-own": (
        RobertaConfig(
            **SMALL, intermediate_size=96, num_attention_heads=4, is_decoder=True, pad_token_id=1
        ),
        "counts positions in a way of its own",
    ),
    "window-unannounced": (
        PhimoeConfig(**sizes(num_local_experts=2, sliding_window=96, **EXPERTS)),
        "asks for a window of None",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_CONFIGURATION)
def test_the_configuration_alone_is_reason_enough(name: str) -> None:
    config, reason = BY_CONFIGURATION[name]
    with pytest.raises(UnsupportedModel, match=reason) as caught:
        refuse_unsupported(config)
    assert caught.value.message.endswith(".")


@pytest.mark.parametrize("name", BY_PROBE)
@pytest.mark.filterwarnings("ignore")  # transformers' own, about models it would rather not build
def test_a_probe_finds_what_no_configuration_says(name: str) -> None:
    config, reason = BY_PROBE[name]
    refuse_unsupported(config)  # nothing to see here
    with pytest.raises(UnsupportedModel, match=reason):
        loaded(config)


@pytest.mark.parametrize("name", [*FAMILIES, *FURTHER, *ALIBI])
def test_supported_configurations_pass(name: str) -> None:
    refuse_unsupported((FAMILIES | FURTHER | ALIBI)[name])


def test_a_model_may_mix_windows_and_full_attention() -> None:
    config = Qwen2Config(**sizes(use_sliding_window=True, sliding_window=50, max_window_layers=1))
    assert [layer.window for layer in loaded(config).spec.layers] == [None, 50]


@pytest.mark.parametrize(
    ("more", "windows"),
    [
        ({"sliding_window": 50}, [50, None]),
        ({"sliding_window": None}, [None, 50]),
        ({"layer_types": ["full_attention", "sliding_attention"]}, [None, None]),
    ],
)
def test_windows_other_than_announced_are_refused(
    more: dict[str, Any], windows: list[int | None]
) -> None:
    config = type(FAMILIES["mistral"])(**sizes(**more))
    with pytest.raises(UnsupportedModel, match="Layer 1 is a"):
        check_windows(config, windows)
