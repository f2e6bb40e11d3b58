"""The weights as a Hugging Face folder: bf16 safetensors in shards, config.json."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from training.model import Reader, Shape
from training.tokenizer import DOCUMENT_ID, END_ID

SHARD_BYTES = 13_500_000
_TIED = "lm_head.weight"


def config_of(shape: Shape) -> dict[str, Any]:
    """config.json of transformers' LlamaForCausalLM."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape.width,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "vocab_size": shape.vocabulary,
        "max_position_embeddings": shape.context_length,
        "rope_theta": shape.rope_theta,
        "rms_norm_eps": shape.norm_epsilon,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "bos_token_id": DOCUMENT_ID,
        "eos_token_id": END_ID,
        "pad_token_id": END_ID,
        "dtype": "bfloat16",
    }


def shape_of(config: dict[str, Any]) -> Shape:
    """Read a shape back from config.json."""
    rope = config.get("rope_parameters") or {}
    return Shape(
        layers=config["num_hidden_layers"],
        width=config["hidden_size"],
        heads=config["num_attention_heads"],
        kv_heads=config["num_key_value_heads"],
        head_dim=config["head_dim"],
        inner=config["intermediate_size"],
        vocabulary=config["vocab_size"],
        context_length=config["max_position_embeddings"],
        rope_theta=config.get("rope_theta") or rope["rope_theta"],
        norm_epsilon=config["rms_norm_eps"],
    )


def save_weights(reader: Reader, folder: Path) -> None:
    """Write config.json, generation_config.json and the shards with their index."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_json(folder / "config.json", config_of(reader.shape))
    _write_json(
        folder / "generation_config.json",
        {"bos_token_id": DOCUMENT_ID, "eos_token_id": END_ID, "pad_token_id": END_ID,
         "do_sample": False},
    )  # fmt: skip
    state = {name: value.detach().cpu().to(torch.bfloat16).contiguous()
             for name, value in reader.state_dict().items()}  # fmt: skip
    shards = _split(state)
    index: dict[str, str] = {}
    for place, shard in enumerate(shards, 1):
        name = f"model-{place:05d}-of-{len(shards):05d}.safetensors"
        save_file(shard, folder / f"{name}.part", metadata={"format": "pt"})
        index |= dict.fromkeys(shard, name)
    for old in folder.glob("model*.safetensors"):
        old.unlink()
    for part in folder.glob("model*.safetensors.part"):
        part.rename(part.with_suffix(""))
    total = sum(tensor.nbytes for tensor in state.values())
    _write_json(
        folder / "model.safetensors.index.json",
        {"metadata": {"total_size": total}, "weight_map": index},
    )


def load_weights(folder: Path, **changes: Any) -> Reader:
    """Read a folder written by save_weights into an fp32 model on the CPU.

    Args:
        changes: fields of its shape to be replaced, such as `rope_theta`.
    """
    shape = shape_of(json.loads((folder / "config.json").read_text()))
    reader = Reader(replace(shape, **changes))
    state: dict[str, Tensor] = {}
    for file in sorted(folder.glob("model*.safetensors")):
        state |= load_file(file)
    state.pop(_TIED, None)
    reader.load_state_dict({name: value.float() for name, value in state.items()})
    return reader


def _split(state: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    shards: list[dict[str, Tensor]] = [{}]
    filled = 0
    for name, tensor in state.items():
        if filled and filled + tensor.nbytes > SHARD_BYTES:
            shards.append({})
            filled = 0
        shards[-1][name] = tensor
        filled += tensor.nbytes
    return shards


def _write_json(file: Path, content: dict[str, Any]) -> None:
    file.write_text(json.dumps(content, indent=2) + "\n")
