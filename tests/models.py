"""Tiny random models, tokenizers and documents, built in code: no download."""

import copy
import random
from collections.abc import Iterator
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    BloomConfig,
    Cohere2Config,
    Gemma2Config,
    Gemma3Config,
    Gemma3TextConfig,
    Glm4Config,
    GPT2Config,
    GptOssConfig,
    GraniteConfig,
    LlamaConfig,
    MistralConfig,
    MixtralConfig,
    MptConfig,
    Olmo2Config,
    Olmo3Config,
    OPTConfig,
    Phi3Config,
    PhiConfig,
    PretrainedConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
    Qwen3MoeConfig,
    SmolLM3Config,
    Starcoder2Config,
)
from transformers.models.auto import AutoModelForCausalLM

from engine.config import PromptConfig
from engine.decode.answer import Answer, TextDelta
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.model.head_plan import HeadPlan
from engine.model.loader import LoadedModel, assemble
from precompute.build import precompute_document
from precompute.config import PrecomputeConfig

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
    "phi3-longrope": Phi3Config(
        **sizes(
            original_max_position_embeddings=256,  # of these tests' documents the longest is longer
            sliding_window=8192,  # no shorter than the context, as Phi-3.5's
            rope_parameters=rope(
                "longrope",
                short_factor=[1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7],
                long_factor=[1.5, 3.0, 6.0, 9.0, 12.0, 15.0, 20.0, 30.0],
            ),
        )
    ),
    "gemma2": Gemma2Config(
        **sizes(head_dim=16, sliding_window=96, query_pre_attn_scalar=16),
    ),
}

VISION = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}
WINDOWED = {"sliding_window": 96, "layer_types": ["sliding_attention", "full_attention"]}
EXPERTS = {"num_experts_per_tok": 1, "output_router_logits": False}

# Served as well, though nobody promised them: what a stranger is likely to try.
FURTHER: dict[str, PretrainedConfig] = {
    "cohere2": Cohere2Config(**sizes(logit_scale=1.0, **WINDOWED)),
    "gemma3": Gemma3TextConfig(**sizes(head_dim=16, query_pre_attn_scalar=16, **WINDOWED)),
    "gemma3-vision": Gemma3Config(
        text_config=sizes(head_dim=16, query_pre_attn_scalar=16, **WINDOWED), vision_config=VISION
    ),
    "glm4": Glm4Config(**sizes(head_dim=16)),
    "gpt-oss": GptOssConfig(
        **sizes(head_dim=16, num_local_experts=2, **WINDOWED, **EXPERTS),
        rope_parameters=rope("yarn", factor=8.0, original_max_position_embeddings=512),
    ),
    "gpt2": GPT2Config(
        vocab_size=VOCABULARY, n_embd=64, n_layer=2, n_head=4, n_positions=4096,
        bos_token_id=0, eos_token_id=3,
    ),
    "granite": GraniteConfig(**sizes(attention_multiplier=0.2, residual_multiplier=0.5)),
    "mixtral": MixtralConfig(**sizes(num_local_experts=2, sliding_window=None, **EXPERTS)),
    "olmo2": Olmo2Config(**sizes()),
    "olmo3": Olmo3Config(**sizes(**WINDOWED)),
    "opt": OPTConfig(**sizes(ffn_dim=96, word_embed_proj_dim=64)),
    "phi": PhiConfig(**sizes()),
    "qwen3-moe": Qwen3MoeConfig(
        **sizes(head_dim=16, num_experts=2, moe_intermediate_size=32, **EXPERTS)
    ),
    "smollm3": SmolLM3Config(**sizes()),
    "starcoder2": Starcoder2Config(**sizes(sliding_window=96)),
}  # fmt: skip

# Linear biases in place of RoPE; for six heads, no power of two, slopes follow another rule.
BLOOM = {"vocab_size": VOCABULARY, "n_layer": 2, "bos_token_id": 0, "eos_token_id": 3}
MPT = {
    "vocab_size": VOCABULARY, "n_layers": 2, "d_model": 64, "max_seq_len": 4096,
    "bos_token_id": 0, "eos_token_id": 3, "use_cache": False,
}  # fmt: skip
ALIBI: dict[str, PretrainedConfig] = {
    "bloom": BloomConfig(**BLOOM, hidden_size=64, n_head=4, seq_length=4096),
    "bloom-6-heads": BloomConfig(**BLOOM, hidden_size=96, n_head=6, seq_length=4096),
    "bloom-post-norm": BloomConfig(
        **BLOOM, hidden_size=64, n_head=4, apply_residual_connection_post_layernorm=True,
        seq_length=4096,
    ),
    "mpt": MptConfig(**MPT, n_heads=4),
    "mpt-6-heads": MptConfig(**(MPT | {"d_model": 96}), n_heads=6),
    "mpt-clipped": MptConfig(**MPT, n_heads=4, attn_config={"clip_qkv": 0.5, "softmax_scale": 0.3}),
}  # fmt: skip

# Half of the heads of the tiny Llama stream; weights must be reordered in the first layer alone.
HALF = HeadPlan("file", ((False, True), (True, False)), num_sinks=4, window=24)

SETTINGS = PrecomputeConfig(
    prefill_dtype="model",
    chunk_tokens=100,
    num_tail=16,
    level2_ratio=0.1,
    level1_ratio=0.03,
    scope_epsilon=1e-90,  # no head drops any key
    num_probes=8,
    dtype="float32",
)


def random_model(config: PretrainedConfig, *, std: float = 0.15, seed: int = 0) -> Any:
    """A model of that configuration with weights drawn at `std`, fp32, full attention."""
    torch.manual_seed(seed)
    config = copy.deepcopy(config)  # a model's own: its attention is changed through it
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    for name, weight in model.named_parameters():
        if weight.dim() > 1 or "bias" in name:
            torch.nn.init.normal_(weight, std=std)
        elif name.endswith("sinks"):  # gpt-oss: as large as the log-sum-exp of a few keys
            torch.nn.init.normal_(weight, mean=2.0, std=2.0)
    return model.float().eval().requires_grad_(False)


def loaded(
    config: PretrainedConfig,
    tokenizer: Any = None,
    *,
    seed: int = 0,
    plan: HeadPlan | None = None,
    prompt: PromptConfig | None = None,
) -> LoadedModel:
    """A random model as the engine loads it, with the byte tokenizer unless another is given."""
    model, tokenizer = random_model(config, seed=seed), tokenizer or byte_tokenizer()
    return assemble(
        model, tokenizer, name="tiny", fingerprint=f"tiny-{seed}", plan=plan, prompt=prompt
    )


def prose(num_chars: int, seed: int = 0) -> str:
    """That many characters of sentences about people, places and numbers, drawn by a seed."""
    draw = random.Random(seed)
    text = ""
    while len(text) < num_chars:
        name = "".join(draw.choices("abdefgiklmnorstu", k=draw.randint(3, 9))).title()
        verb = draw.choice(("keeps", "sold", "found", "painted", "counted"))
        thing = draw.choice(("lamps", "copper coins", "letters", "grey horses", "maps"))
        place = draw.choice(("harbour", "old mill", "third street", "library", "garden"))
        text += f"{name} {verb} {draw.randint(2, 9999)} {thing} at the {place}. "
    return text[:num_chars]


def answer(
    model: LoadedModel, document: DocumentCache, question: str, **options: Any
) -> Iterator[TextDelta | Answer]:
    """Answer a question with an engine of its own; options as of `Engine.answer`."""
    with Engine(model) as engine:
        yield from engine.answer(document, question, **options)


def unheard(*_: Any) -> None:
    """A listener to progress that does not listen."""


def read(
    model: LoadedModel, text: str, settings: PrecomputeConfig = SETTINGS, listener: Any = unheard
) -> DocumentCache:
    """Read a text of one page."""
    return precompute_document(model, text, [(1, 0, len(text))], settings, listener)
