"""Quantised checkpoints: which kinds are loaded, and by which libraries of transformers' choice."""

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from common.errors import UnsupportedModel

# By kind: packages that loading asks for, and bits of a weight. PyPI's names; modules have `_`.
LIBRARIES: Mapping[str, tuple[tuple[str, ...], int]] = MappingProxyType(
    {
        "awq": (("gptqmodel", "accelerate"), 4),
        "bitsandbytes": (("bitsandbytes", "accelerate"), 8),
        "compressed-tensors": (("compressed-tensors",), 8),
        "fp8": (("accelerate",), 8),
        "gptq": (("gptqmodel", "optimum"), 4),
        "mxfp4": (("accelerate",), 4),
        "torchao": (("torchao",), 8),
    }
)

# Further packages on a GPU. FP8's kernels come through `kernels`; transformers widens the weights
# where no GPU is there for them.
GPU_LIBRARIES: Mapping[str, tuple[str, ...]] = MappingProxyType({"fp8": ("kernels",)})
FP8_CAPABILITY = (8, 9)  # of the first GPUs that multiply in FP8

PLAIN_DTYPES = frozenset({torch.float32, torch.bfloat16, torch.float16})


def quantisation_of(config: Any) -> str | None:
    """Name the kind of quantisation of a checkpoint's weights; None if they are not quantised.

    Args:
        config: transformers' configuration of the whole model.
    """
    if getattr(config, "quantization_config", None) is None:
        return None
    fields = _fields(config)
    if fields.get("load_in_4bit") or fields.get("load_in_8bit"):
        return "bitsandbytes"
    method = fields.get("quant_method")
    return str(getattr(method, "value", method))


def check_libraries(config: Any, device: torch.device) -> None:
    """Refuse a checkpoint whose quantisation cannot be loaded with what is installed.

    Args:
        config: transformers' configuration of the whole model.
        device: where the model is to run: on a GPU some kinds ask for more.
    Raises: UnsupportedModel that names the packages to install.
    """
    kind = quantisation_of(config)
    if kind is None:
        return
    if kind not in LIBRARIES:
        raise UnsupportedModel(
            f"The model's weights are quantised by '{kind}', which is not served; these are: "
            f"{', '.join(LIBRARIES)}."
        )
    packages, _ = LIBRARIES[kind]
    if device.type == "cuda" and not _is_widened(config):
        packages += GPU_LIBRARIES.get(kind, ())
    missing = [name for name in packages if find_spec(name.replace("-", "_")) is None]
    if missing:
        raise UnsupportedModel(
            f"The model's weights are quantised by '{kind}', whose libraries are not installed: "
            f"pip install {' '.join(missing)}"
        )


def _is_widened(config: Any) -> bool:
    """Whether transformers widens FP8 weights as it loads them on a GPU."""
    return bool(_fields(config).get("dequantize")) or (
        torch.cuda.is_available() and torch.cuda.get_device_capability() < FP8_CAPABILITY
    )


def _fields(config: Any) -> dict[str, Any]:
    """What a configuration says about its quantisation; only where it says something."""
    given = config.quantization_config
    fields: dict[str, Any] = given if isinstance(given, dict) else given.to_dict()
    return fields


def bits_of(config: Any) -> int | None:
    """Return the bits of a quantised weight, roughly; None if weights are not quantised."""
    kind = quantisation_of(config)
    if kind is None or kind not in LIBRARIES:
        return None
    return 4 if _fields(config).get("load_in_4bit") else LIBRARIES[kind][1]


def held_tensors(tensor: Tensor) -> Iterator[Tensor]:
    """Yield the plain tensors that a weight consists of: itself, or what its library packed.

    torchao's weights are subclasses of tensors that hold others; bitsandbytes keeps the scales of
    a weight beside it.
    """
    if hasattr(tensor, "__tensor_flatten__"):
        names, _ = tensor.__tensor_flatten__()
        for name in names:
            yield from held_tensors(getattr(tensor, name))
        return
    yield tensor
    for beside in (getattr(tensor, "SCB", None), getattr(tensor, "quant_state", None)):
        scales = getattr(beside, "absmax", beside)
        if isinstance(scales, Tensor):
            yield scales


def is_plain_linear(module: Any) -> TypeGuard[nn.Linear]:
    """Whether a module is a linear layer whose weight may be read and moved as a matrix.

    Quantised layers are not: they are subclasses, or their weights are packed or of a tensor
    subclass of their library, or it has given them scales and another `forward`.
    """
    if type(module) is not nn.Linear or "forward" in vars(module):
        return False
    if set(module._parameters) > {"weight", "bias"} or module._buffers:
        return False
    weight = module.weight.data
    return type(weight) is Tensor and weight.dtype in PLAIN_DTYPES
