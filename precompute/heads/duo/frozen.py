"""A model through which gradients flow, but to none of its weights."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Freeze the weights, and let layers keep only their inputs: memory is that of one layer.

    A layer is computed once more for its gradient. Only the layers themselves are told that they
    train, which is what transformers asks for; what is inside them stays as in inference.
    """
    weights = [one for one in model.parameters() if one.requires_grad]
    layers: list[Any] = [
        one for one in model.modules() if isinstance(one, GradientCheckpointingLayer)
    ]
    for weight in weights:
        weight.requires_grad_(False)
    for layer in layers:
        layer.gradient_checkpointing = layer.training = True
        layer._gradient_checkpointing_func = partial(checkpoint, use_reentrant=False)
    try:
        yield
    finally:
        for layer in layers:
            layer.gradient_checkpointing = layer.training = False
        for weight in weights:
            weight.requires_grad_(True)
