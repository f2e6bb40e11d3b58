"""Small random checkpoints of every kind of quantisation, written as their makers write them."""

import json
import os
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import BitsAndBytesConfig, LlamaConfig, TorchAoConfig
from transformers.models.auto import AutoModelForCausalLM

from tests.models import FURTHER, byte_tokenizer, random_model, sizes

CONFIG = LlamaConfig(**sizes() | {"hidden_size": 128, "intermediate_size": 256})
BLOCK, GROUP = 128, 64


def needs(*packages: str) -> None:
    """Skip the test where a package is not installed; in CI that is a failure."""
    for name in packages:
        if find_spec(name) is None:
            if os.environ.get("CI"):
                pytest.fail(f"{name} is not installed")
            pytest.skip(f"{name} is not installed")


def save_plain(folder: Path) -> None:
    """A model that is not quantised."""
    random_model(CONFIG).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)


def save_by_library(folder: Path, quantisation: Any) -> None:
    """A model that transformers quantises and saves through the library itself."""
    save_plain(folder / "plain")
    model = AutoModelForCausalLM.from_pretrained(
        folder / "plain", quantization_config=quantisation, dtype=torch.float32
    )
    model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)


def save_bnb4(folder: Path) -> None:
    """NF4 of bitsandbytes."""
    needs("bitsandbytes", "accelerate")
    save_by_library(
        folder,
        BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.float32
        ),
    )


def save_bnb8(folder: Path) -> None:
    """LLM.int8 of bitsandbytes."""
    needs("bitsandbytes", "accelerate")
    save_by_library(folder, BitsAndBytesConfig(load_in_8bit=True))


def save_torchao(folder: Path) -> None:
    """Eight-bit weights of torchao."""
    needs("torchao")
    from torchao.quantization import Int8WeightOnlyConfig

    save_by_library(folder, TorchAoConfig(Int8WeightOnlyConfig()))


def save_fp8(folder: Path) -> None:
    """Fine-grained FP8, as DeepSeek and Qwen publish it: a scale for each block of 128 x 128."""
    needs("accelerate")

    def blocks(name: str, weight: Tensor) -> dict[str, Tensor]:
        rows, columns = (-(-size // BLOCK) for size in weight.shape)
        padded = torch.zeros(rows * BLOCK, columns * BLOCK)
        padded[: weight.shape[0], : weight.shape[1]] = weight
        tiles = padded.view(rows, BLOCK, columns, BLOCK)
        scale = tiles.abs().amax((1, 3)) / 448
        eights = (tiles / scale[:, None, :, None]).view_as(padded).to(torch.float8_e4m3fn)
        cut = eights[: weight.shape[0], : weight.shape[1]].contiguous()
        return {name: cut, f"{name}_scale_inv": scale}

    about = {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3",
             "weight_block_size": [BLOCK, BLOCK]}  # fmt: skip
    _rewrite(folder, blocks, about)


def save_compressed_tensors(folder: Path) -> None:
    """FP8 of compressed-tensors: a scale a row, activations quantised token by token."""
    needs("compressed_tensors", "accelerate")

    def rows(name: str, weight: Tensor) -> dict[str, Tensor]:
        scale = weight.abs().amax(1, keepdim=True) / 448
        return {name: (weight / scale).to(torch.float8_e4m3fn), f"{name}_scale": scale}

    float8 = {"num_bits": 8, "type": "float", "symmetric": True}
    group = {
        "targets": ["Linear"],
        "weights": {**float8, "strategy": "channel"},
        "input_activations": {**float8, "strategy": "token", "dynamic": True},
    }
    about = {"quant_method": "compressed-tensors", "format": "float-quantized",
             "quantization_status": "compressed", "ignore": ["lm_head"],
             "config_groups": {"group_0": group}}  # fmt: skip
    _rewrite(folder, rows, about)


def save_mxfp4(folder: Path) -> None:
    """MXFP4, as gpt-oss is published: experts in blocks of 32 weights of four bits."""
    needs("accelerate")
    config = FURTHER["gpt-oss"]
    random_model(config).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    draw = torch.Generator().manual_seed(0)

    def blocks(name: str, weight: Tensor) -> dict[str, Tensor]:
        experts, ins, outs = weight.shape
        shape = (experts, outs, ins // 32)
        fours = torch.randint(0, 256, (*shape, 16), generator=draw, dtype=torch.uint8)
        scales = torch.randint(122, 125, shape, generator=draw, dtype=torch.uint8)
        return {f"{name}_blocks": fours, f"{name}_scales": scales}

    def change(name: str, weight: Tensor) -> dict[str, Tensor]:
        packed = name.endswith(("experts.gate_up_proj", "experts.down_proj"))
        return blocks(name, weight) if packed else {name: weight}

    _change_file(folder, change, {"quant_method": "mxfp4"})


def save_gptq(folder: Path) -> None:
    """GPTQ's packed 4-bit weights, drawn at random as they are packed."""

    def packed(name: str, weight: Tensor) -> dict[str, Tensor]:
        outs, ins = weight.shape
        stem = name.removesuffix("weight")
        return {
            f"{stem}qweight": _random_words(ins // 8, outs),
            f"{stem}qzeros": torch.full((ins // GROUP, outs // 8), 0x77777777, dtype=torch.int32),
            f"{stem}scales": torch.full((ins // GROUP, outs), 0.02, dtype=torch.float16),
            f"{stem}g_idx": torch.arange(ins, dtype=torch.int32) // GROUP,
        }

    about = {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": False, "sym": True}
    _rewrite(folder, packed, about)


def save_awq(folder: Path) -> None:
    """AWQ's packed 4-bit weights, drawn at random as they are packed."""

    def packed(name: str, weight: Tensor) -> dict[str, Tensor]:
        outs, ins = weight.shape
        stem = name.removesuffix("weight")
        return {
            f"{stem}qweight": _random_words(ins, outs // 8),
            f"{stem}qzeros": torch.full((ins // GROUP, outs // 8), 0x77777777, dtype=torch.int32),
            f"{stem}scales": torch.full((ins // GROUP, outs), 0.02, dtype=torch.float16),
        }

    about = {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm",
             "zero_point": True}  # fmt: skip
    _rewrite(folder, packed, about)


def _random_words(rows: int, columns: int) -> Tensor:
    draw = torch.Generator().manual_seed(rows * columns)
    return torch.randint(-(2**31), 2**31 - 1, (rows, columns), generator=draw, dtype=torch.int32)


def _rewrite(
    folder: Path, change: Callable[[str, Tensor], dict[str, Tensor]], about: Mapping[str, Any]
) -> None:
    """Save a plain model with its projections changed, and say so in its configuration."""

    def projections(name: str, weight: Tensor) -> dict[str, Tensor]:
        return change(name, weight) if name.endswith("proj.weight") else {name: weight}

    save_plain(folder)
    _change_file(folder, projections, about)


def _change_file(
    folder: Path, change: Callable[[str, Tensor], dict[str, Tensor]], about: Mapping[str, Any]
) -> None:
    """Change a saved model's tensors, and say so in its configuration."""
    file, config = folder / "model.safetensors", folder / "config.json"
    tensors: dict[str, Tensor] = {}
    for name, tensor in load_file(file).items():
        tensors |= change(name, tensor)
    save_file(tensors, file, metadata={"format": "pt"})
    fields = json.loads(config.read_text()) | {"quantization_config": dict(about)}
    config.write_text(json.dumps(fields))
