"""Tiny random models and tokenizers, built in code: no download."""

from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    Gemma2Config,
    LlamaConfig,
    MistralConfig,
    Phi3Config,
    PretrainedConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
)
from transformers.models.auto import AutoModelForCausalLM

SPECIAL = ("<|document|>", "<|question|>", "<|answer|>", "<|end|>")
VOCABULARY = 256 + len(SPECIAL)
TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'system' %}<|document|>{{ message['content'] }}"
    "{% elif message['role'] == 'user' %}<|question|>{{ message['content'] }}"
    "{% else %}<|answer|>{{ message['content'] }}<|end|>{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|answer|>{% endif %}"
)


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer of one token a byte, with the bundled reader's template."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate((*SPECIAL, *alphabet))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL))
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<|document|>",
        eos_token="<|end|>",
        pad_token="<|end|>",
        additional_special_tokens=["<|question|>", "<|answer|>"],
    )
    fast.chat_template = TEMPLATE
    return fast


def sizes(kv_heads: int = 2, **more: Any) -> dict[str, Any]:
    """Shared sizes of the tiny models: 4 query heads, 2 layers, a context of 4,096 tokens."""
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": 4096,
        "pad_token_id": 3,
        "bos_token_id": 0,
        "eos_token_id": 3,
        **more,
    }


def rope(kind: str, **more: Any) -> dict[str, Any]:
    """RoPE parameters of a kind."""
    return {"rope_type": kind, "rope_theta": 10_000.0, **more}


FAMILIES: dict[str, PretrainedConfig] = {
    "llama": LlamaConfig(**sizes()),
    "llama-mha": LlamaConfig(**sizes(kv_heads=4)),
    "llama-gqa4": LlamaConfig(**sizes(kv_heads=1)),
    "llama3-rope": LlamaConfig(
        **sizes(
            rope_parameters=rope(
                "llama3",
                factor=8.0,
                low_freq_factor=1.0,
                high_freq_factor=4.0,
                original_max_position_embeddings=512,
            )
        )
    ),
    "yarn-rope": LlamaConfig(
        **sizes(rope_parameters=rope("yarn", factor=8.0, original_max_position_embeddings=512))
    ),
    "mistral": MistralConfig(**sizes(sliding_window=None)),
    "mistral-window": MistralConfig(**sizes(sliding_window=96)),
    "qwen2": Qwen2Config(**sizes()),
    "qwen3": Qwen3Config(**sizes(head_dim=16)),
    "phi3": Phi3Config(**sizes()),
    "gemma2": Gemma2Config(
        **sizes(head_dim=16, sliding_window=96, query_pre_attn_scalar=16),
    ),
}


def random_model(config: PretrainedConfig, *, std: float = 0.15, seed: int = 0) -> Any:
    """A model of that configuration with weights drawn at `std`, fp32, full attention."""
    torch.manual_seed(seed)
    config._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    for name, weight in model.named_parameters():
        if weight.dim() > 1 or "bias" in name:
            torch.nn.init.normal_(weight, std=std)
    return model.float().eval()
