"""Linear layers that are no more than a matrix and perhaps a bias."""

from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

PLAIN_DTYPES = frozenset({torch.float32, torch.bfloat16, torch.float16})


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
