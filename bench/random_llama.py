"""Llamas with random weights, built on the device that runs them."""

from dataclasses import dataclass
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

SPREAD = 0.02  # standard deviation of weights
SEED = 0


@dataclass(frozen=True)
class ModelShape:
    """A Llama's sizes."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    kv_heads: int

    @property
    def head_dim(self) -> int:
        """Of every head."""
        return self.hidden_size // self.num_heads

    def document_bytes(self, num_tokens: int, retrieval: float) -> int:
        """Keys and values of a document in bf16, a share of whose heads keep all of it."""
        heads = self.num_layers * self.kv_heads * retrieval
        return int(4 * self.head_dim * heads * num_tokens)


SHAPES = {
    "llama3_8b": ModelShape(128_256, 4096, 14_336, 32, 32, 8),
    "llama2_7b": ModelShape(32_000, 4096, 11_008, 32, 32, 32),
}
# Fingerprints of folders by the shape that `bench.serving.model_folder` drew, for results that tell
# no more of their weights. They are the same each time on one kind of device.
DRAWN_FOLDERS = {
    # --shape llama3_8b --context 135168 --device cuda, on an H200
    "2e77d6c166f403ab15e38e12d9a55e39d0a7219b57ad985a8095cd52ed418c4f": "llama3_8b",
}


def random_llama(
    shape: ModelShape,
    context_length: int,
    device: str,
    dtype: torch.dtype = torch.bfloat16,
    spread: float = SPREAD,
) -> Any:
    """The same weights each time, for inference.

    Args:
        spread: standard deviation of the weights.
    """
    config = LlamaConfig(
        vocab_size=shape.vocab_size,
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_hidden_layers=shape.num_layers,
        num_attention_heads=shape.num_heads,
        num_key_value_heads=shape.kv_heads,
        max_position_embeddings=context_length,
        initializer_range=spread,
        rope_parameters={"rope_type": "default", "rope_theta": 5e5},
        dtype=str(dtype).removeprefix("torch."),
    )
    torch.manual_seed(SEED)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    with torch.device(device):
        model: Any = LlamaForCausalLM(config)  # type: ignore[no-untyped-call]
    torch.set_default_dtype(before)
    return model.eval().requires_grad_(False)
